#include "model/checkpoint.hpp"
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include "model/tensor_checks.hpp"
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace ebb::model {
namespace {

constexpr std::string_view name_embedding = "token_embd.weight";
constexpr std::string_view name_output_norm = "output_norm.weight";
constexpr std::string_view name_output = "output.weight";
constexpr std::uint64_t warm_chunk_bytes = 16u << 20;  // read between two calls of progress: tens of ms from a slow disk

// Fills the weights of a model one by one and keeps the first error, so that a layer reads as a list of its tensors.
class weight_reader {
 public:
  explicit weight_reader(const gguf& file) : file_(file) {}

  void matrix(kernels::weights& into, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols) {
    keep(into, require_matrix(file_, name, n_rows, n_cols));
  }
  void float_matrix(kernels::weights& into, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols) {
    keep(into, require_float_matrix(file_, name, n_rows, n_cols));
  }
  void vector(std::vector<float>& into, std::string_view name, std::uint64_t n_values) {
    keep(into, require_vector(file_, name, n_values));
  }

  const std::optional<error>& failure() const noexcept { return failure_; }

 private:
  template <class T>
  void keep(T& into, result<T> value) {
    if (value) {
      into = *std::move(value);
    } else if (!failure_) {
      failure_ = std::move(value.error());
    }
  }

  const gguf& file_;
  std::optional<error> failure_;
};

layer_weights read_layer(weight_reader& in, const architecture& family, const shape& dims, std::uint32_t index) {
  const auto name = [index](std::string_view behind) { return layer_tensor_name(index, behind); };
  const std::uint64_t q_rows = std::uint64_t{dims.n_heads} * dims.head_dim;
  const std::uint64_t kv_rows = std::uint64_t{dims.n_kv_heads} * dims.head_dim;
  const layer_tensor_names& names = family.layer;
  layer_weights out;
  in.vector(out.attn_norm, name(names.attn_norm), dims.d_model);
  in.matrix(out.attn_q, name(names.attn_q), q_rows, dims.d_model);
  in.matrix(out.attn_k, name(names.attn_k), kv_rows, dims.d_model);
  in.matrix(out.attn_v, name(names.attn_v), kv_rows, dims.d_model);
  if (!names.attn_q_norm.empty()) in.vector(out.attn_q_norm, name(names.attn_q_norm), dims.head_dim);
  if (!names.attn_k_norm.empty()) in.vector(out.attn_k_norm, name(names.attn_k_norm), dims.head_dim);
  in.matrix(out.attn_output, name(names.attn_output), dims.d_model, q_rows);
  in.vector(out.ffn_norm, name(names.ffn_norm), dims.d_model);
  in.float_matrix(out.router, name(names.router), dims.n_experts, dims.d_model);
  return out;
}

// Does a model of this family and depth have a tensor of this name?
bool has_tensor(const architecture& family, std::uint32_t n_layers, std::string_view name) {
  if (name == name_embedding || name == name_output_norm || name == name_output) return true;
  const auto place = split_layer_tensor_name(name);
  return place && place->layer < n_layers && contains(family.layer, place->name);
}

// A bias, a dense block between layers of experts or a norm that is passed over would give wrong answers, so it is refused.
result<void> refuse_foreign_tensors(const gguf& file, const architecture& family, std::uint32_t n_layers) {
  const auto is_foreign = [&](const gguf_tensor& tensor) { return !has_tensor(family, n_layers, tensor.name); };
  const auto found = std::ranges::find_if(file.tensors(), is_foreign);
  if (found == file.tensors().end()) return {};
  return fail(errc::unsupported_architecture, file.name() + " has tensor " + in_quotes(found->name) + ", which " + std::string(family.name) +
                                                  " models of " + std::to_string(n_layers) +
                                                  " layers do not have: it is another kind of model than can be run.");
}

}  // namespace

result<std::shared_ptr<const checkpoint>> checkpoint::open(const std::filesystem::path& path) {
  auto file = gguf::open(path);
  if (!file) return fail(std::move(file.error()));
  return make(*std::move(file));
}

result<std::shared_ptr<const checkpoint>> checkpoint::make(gguf file) {
  const std::shared_ptr<checkpoint> out(new checkpoint(std::move(file)));
  const auto family = find_architecture(out->file_);
  if (!family) return fail(family.error());
  out->family_ = *family;
  auto dims = read_shape(out->file_, **family);
  if (!dims) return fail(std::move(dims.error()));
  out->dims_ = *dims;
  if (const auto done = refuse_foreign_tensors(out->file_, **family, dims->n_layers); !done) return fail(done.error());
  auto experts = catalog::make(out->file_, **family, *dims);
  if (!experts) return fail(std::move(experts.error()));
  out->experts_ = *std::move(experts);
  if (const auto done = out->read_dense_tensors(); !done) return fail(done.error());
  return out;
}

// The catalog has found every layer of the keys by now, so their number is one that the file really holds.
result<void> checkpoint::read_dense_tensors() {
  weight_reader in(file_);
  in.matrix(token_embedding_, name_embedding, dims_.n_vocab, dims_.d_model);
  in.vector(output_norm_, name_output_norm, dims_.d_model);
  output_ = token_embedding_;
  if (file_.find_tensor(name_output) != nullptr) in.matrix(output_, name_output, dims_.n_vocab, dims_.d_model);
  layers_.reserve(dims_.n_layers);
  for (std::uint32_t index = 0; index < dims_.n_layers && !in.failure(); ++index) {
    layers_.push_back(read_layer(in, *family_, dims_, index));
  }
  if (in.failure()) return fail(*in.failure());
  return {};
}

const layer_weights& checkpoint::layer(std::uint32_t index) const noexcept {
  EBB_ASSERT(index < layers_.size());
  return layers_[index];
}

void checkpoint::warm(const progress_fn& progress, const std::stop_token& stop) const {
  std::uint64_t total = 0;
  for (const gguf_tensor& tensor : file_.tensors()) total += tensor.size_bytes;
  std::uint64_t done = 0;
  for (const gguf_tensor& tensor : file_.tensors()) {
    for (std::uint64_t offset = 0; offset < tensor.size_bytes; offset += warm_chunk_bytes) {
      if (stop.stop_requested()) return;
      const std::uint64_t chunk = std::min(warm_chunk_bytes, tensor.size_bytes - offset);
      read_through({tensor.data + offset, chunk});
      done += chunk;
      if (progress) progress(static_cast<double>(done) / static_cast<double>(total));
    }
  }
}

}  // namespace ebb::model
