#include "tools/synthetic_model.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "config/nearest.hpp"
#include "config/utf8.hpp"
#include "model/vocabulary.hpp"
#include "tools/router_skew.hpp"
#include "tools/synthetic_vocabulary.hpp"
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace ebb::tools {
namespace {

using kernels::format;

struct named_shape {
  std::string_view name;
  model::shape dims;
};

constexpr std::array shapes = {
    named_shape{synthetic_shape_default,
                {.n_layers = 48, .n_vocab = 151936, .context_length = 40960, .d_model = 2048, .n_heads = 32, .n_kv_heads = 4, .head_dim = 128,
                 .n_experts = 128, .top_k = 8, .d_ff = 768, .rms_eps = 1e-6f, .rope_base = 1e6}},
    named_shape{"tiny",
                {.n_layers = 4, .n_vocab = 1024, .context_length = 2048, .d_model = 256, .n_heads = 8, .n_kv_heads = 2, .head_dim = 64,
                 .n_experts = 32, .top_k = 4, .d_ff = 256, .rms_eps = 1e-6f, .rope_base = 1e6}},
    // Numbers that others use and the two above do not: heads of 96, 6 experts a token of 1408 values each, which no block of 256 divides, and counts
    // of experts and tokens that are no powers of two.
    named_shape{"odd",
                {.n_layers = 3, .n_vocab = 1003, .context_length = 2048, .d_model = 256, .n_heads = 8, .n_kv_heads = 4, .head_dim = 96,
                 .n_experts = 40, .top_k = 6, .d_ff = 1408, .rms_eps = 1e-5f, .rope_base = 1e4}},
};

constexpr std::uint32_t k_quant_width = 256;  // of a block: every dense width of every shape is a whole number of them
static_assert(std::ranges::all_of(shapes, [](const named_shape& shape) {
  return shape.dims.d_model % k_quant_width == 0 && shape.dims.n_heads * shape.dims.head_dim % k_quant_width == 0;
}));

// Quantisers too take another format where a row is no whole number of blocks.
format fitting(format wanted, std::uint32_t n_cols) { return n_cols % kernels::info(wanted).values_per_block == 0 ? wanted : format::q8_0; }

constexpr float norm_noise = 0.05f;   // deviation of the weights of a norm around 1
constexpr std::uint32_t quantization_version = 2;  // of the layouts of the blocks

// general.file_type of a file whose matrices are mostly of this format, by the numbers of GGUF's tools.
std::uint32_t file_type_of(format experts) {
  switch (experts) {
    case format::f32: return 0;
    case format::f16: return 1;
    case format::q4_0: return 2;
    case format::q4_1: return 3;
    case format::q8_0: return 7;
    case format::q5_0: return 8;
    case format::q5_1: return 9;
    case format::q4_k: return 14;  // "Q4_K - Small": without the finer layers
    case format::q5_k: return 16;
    case format::q6_k: return 18;
    default: EBB_ASSERT(experts == format::bf16); return 32;
  }
}
constexpr std::uint32_t file_type_q4_k_m = 15;

std::string lower_case(std::string_view name) {
  std::string out(name);
  std::ranges::transform(out, out.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return out;
}

// ", ": "tiny, small".
template <class Names>
std::string listed(const Names& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

// The formats of matrices: as the quantiser that writes Q4_K_M chooses them, or with one format for every expert.
class format_mix {
 public:
  static result<format_mix> of(const std::string& name) {
    if (lower_case(name) == synthetic_formats_default) return format_mix(std::nullopt);
    std::vector<std::string> known{std::string(synthetic_formats_default)};
    for (std::uint32_t number = 0; number <= static_cast<std::uint32_t>(format::mxfp4); ++number) {
      if (!kernels::format_known(number) || !kernels::info(static_cast<format>(number)).has_kernels) continue;
      known.push_back(lower_case(kernels::info(static_cast<format>(number)).name));
      if (known.back() == lower_case(name)) return format_mix(static_cast<format>(number));
    }
    return fail(errc::bad_value, "formats " + in_quotes(name) + " are not known; there are: " + listed(known));
  }

  format usual() const noexcept { return format::q4_k; }
  format output() const noexcept { return format::q6_k; }
  format attn_v(std::uint32_t layer, std::uint32_t n_layers) const noexcept { return finer(layer, n_layers) ? format::q6_k : format::q4_k; }
  format gate_and_up() const noexcept { return experts_.value_or(format::q4_k); }
  format down(std::uint32_t layer, std::uint32_t n_layers) const noexcept { return experts_.value_or(attn_v(layer, n_layers)); }
  std::uint32_t file_type() const { return experts_ ? file_type_of(*experts_) : file_type_q4_k_m; }

 private:
  explicit format_mix(std::optional<format> experts) : experts_(experts) {}

  // The first and the last eighth of the layers, and every third between them.
  static bool finer(std::uint32_t layer, std::uint32_t n_layers) noexcept {
    const std::uint32_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
  }

  std::optional<format> experts_;
};

result<model::shape> shape_of(const synthetic_options& options) {
  const auto found = std::ranges::find(shapes, options.shape, &named_shape::name);
  if (found == shapes.end()) {
    const auto known = synthetic_shapes();
    return fail(errc::bad_value, "no shape " + in_quotes(options.shape) + did_you_mean(options.shape, known) + "; there are: " + listed(known));
  }
  model::shape dims = found->dims;
  dims.n_layers = options.n_layers.value_or(dims.n_layers);
  dims.n_experts = options.n_experts.value_or(dims.n_experts);
  dims.top_k = options.top_k.value_or(dims.top_k);
  dims.n_vocab = options.n_vocab.value_or(dims.n_vocab);
  std::optional<error> failure;
  const auto bound = [&](const char* what, std::uint32_t number, std::uint32_t least, std::uint32_t most) {
    if (failure || (number >= least && number <= most)) return;
    failure = error{errc::bad_value, std::to_string(number) + " " + what + ": from " + std::to_string(least) + " to " + std::to_string(most) + " can be made"};
  };
  bound("layers", dims.n_layers, 1, limits::synthetic_layers_max);
  bound("experts", dims.n_experts, 1, limits::synthetic_experts_max);
  bound("experts used", dims.top_k, 1, dims.n_experts);
  bound("tokens of vocabulary", dims.n_vocab, synthetic_vocab_min, synthetic_vocab_max);
  if (failure) return fail(*failure);
  return dims;
}

const model::architecture& family() {
  const auto found = std::ranges::find(model::architectures(), "qwen3moe", &model::architecture::name);
  EBB_ASSERT(found != model::architectures().end());
  return *found;
}

constexpr const char* chat_template =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

void set_keys(const synthetic_options& options, const format_mix& formats, synthetic_model& out) {
  model::write_shape(out.dims, family(), out.keys);
  out.keys.set(std::string(family().name) + ".feed_forward_length", out.dims.d_ff * out.dims.top_k);  // of a dense block; there is none
  out.keys.set("general.type", std::string("model"));
  out.keys.set("general.name", "Synthetic " + options.shape);
  out.keys.set("general.description", "Random weights, for measuring. Made by ebb synth: seed " + std::to_string(options.seed) + ", skew " +
                                          std::to_string(options.skew) + ".");
  out.keys.set("general.file_type", formats.file_type());
  out.keys.set("general.quantization_version", quantization_version);
  const model::tokenizer_spec vocabulary = synthetic_vocabulary(out.dims.n_vocab);
  model::write_vocabulary(vocabulary, out.keys);
  out.keys.set("tokenizer.ggml.padding_token_id", static_cast<std::uint32_t>(*vocabulary.bos));
  out.keys.set("tokenizer.chat_template", std::string(chat_template));
}

// Adds the tensors of a model, a kind of content each.
class tensor_list {
 public:
  tensor_list(synthetic_model& out, std::vector<float> router) : out_(out), router_(std::move(router)) {}

  void norm(std::string name, std::uint64_t width) { add({std::move(name), {width}, format::f32}, {.mean = 1, .deviation = norm_noise, .row_factors = {}}); }
  // Each layer adds something of deviation up to 1 to the embedding of a token, and attention, which averages, adds much the same to every
  // token. So the embedding must outweigh all layers together, or the deeper ones would see, and pick for, every token alike.
  void embedding(std::string name, std::uint64_t n_cols, std::uint64_t n_rows, format type) {
    add({std::move(name), {n_cols, n_rows}, type}, {.deviation = std::sqrt(2.0f * static_cast<float>(out_.dims.n_layers)), .row_factors = {}});
  }
  // A product with activations of deviation 1 has deviation 1.
  void matrix(std::string name, std::vector<std::uint64_t> dims, format type) {
    const float deviation = 1 / std::sqrt(static_cast<float>(dims[0]));
    add({std::move(name), std::move(dims), type}, {.deviation = deviation, .row_factors = {}});
  }
  void router(std::string name, std::uint32_t layer) {
    const std::uint64_t n_cols = out_.dims.d_model, n_experts = out_.dims.n_experts;
    value_spread spread{.deviation = 1 / std::sqrt(static_cast<float>(n_cols)), .row_factors = std::vector<float>(n_experts)};
    const auto order = hottest_first(out_.seed, layer, out_.dims.n_experts);
    for (std::size_t rank = 0; rank < order.size(); ++rank) spread.row_factors[order[rank]] = router_[rank];
    add({std::move(name), {n_cols, n_experts}, format::f32}, std::move(spread));
  }

 private:
  void add(model::tensor_plan tensor, value_spread spread) {
    out_.tensors.push_back(std::move(tensor));
    out_.spreads.push_back(std::move(spread));
  }

  synthetic_model& out_;
  std::vector<float> router_;  // deviations of logits, hottest first
};

void add_layer(tensor_list& list, const model::shape& dims, const format_mix& formats, std::uint32_t layer) {
  const model::layer_tensor_names& names = family().layer;
  const auto name = [layer](std::string_view behind) { return model::layer_tensor_name(layer, behind); };
  const std::uint64_t q_width = std::uint64_t{dims.n_heads} * dims.head_dim, kv_width = std::uint64_t{dims.n_kv_heads} * dims.head_dim;
  list.norm(name(names.attn_norm), dims.d_model);
  list.matrix(name(names.attn_q), {dims.d_model, q_width}, formats.usual());
  list.matrix(name(names.attn_k), {dims.d_model, kv_width}, formats.usual());
  list.matrix(name(names.attn_v), {dims.d_model, kv_width}, formats.attn_v(layer, dims.n_layers));
  list.norm(name(names.attn_q_norm), dims.head_dim);
  list.norm(name(names.attn_k_norm), dims.head_dim);
  list.matrix(name(names.attn_output), {q_width, dims.d_model}, formats.usual());
  list.norm(name(names.ffn_norm), dims.d_model);
  list.router(name(names.router), layer);
  list.matrix(name(names.gate_experts), {dims.d_model, dims.d_ff, dims.n_experts}, formats.gate_and_up());
  list.matrix(name(names.up_experts), {dims.d_model, dims.d_ff, dims.n_experts}, formats.gate_and_up());
  list.matrix(name(names.down_experts), {dims.d_ff, dims.d_model, dims.n_experts}, fitting(formats.down(layer, dims.n_layers), dims.d_ff));
}

}  // namespace

std::vector<std::string_view> synthetic_shapes() {
  std::vector<std::string_view> names;
  for (const named_shape& shape : shapes) names.push_back(shape.name);
  return names;
}

std::vector<std::uint32_t> hottest_first(std::uint64_t seed, std::uint32_t layer, std::uint32_t n_experts) {
  std::vector<std::uint32_t> order(n_experts);
  std::iota(order.begin(), order.end(), 0u);
  counted_random random({seed, number_of("hottest_first"), layer});
  for (std::uint32_t left = n_experts; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

result<synthetic_model> make_synthetic(const synthetic_options& options) {
  const auto dims = shape_of(options);
  if (!dims) return fail(dims.error());
  const auto formats = format_mix::of(options.formats);
  if (!formats) return fail(formats.error());
  auto router = router_deviations(dims->n_experts, dims->top_k, options.skew);
  if (!router) return fail(std::move(router.error()));

  synthetic_model out{.dims = *dims, .seed = options.seed, .keys = {}, .tensors = {}, .spreads = {}};
  set_keys(options, *formats, out);
  tensor_list list(out, *std::move(router));
  list.embedding("token_embd.weight", dims->d_model, dims->n_vocab, formats->usual());
  for (std::uint32_t layer = 0; layer < dims->n_layers; ++layer) add_layer(list, *dims, *formats, layer);
  list.norm("output_norm.weight", dims->d_model);
  list.matrix("output.weight", {dims->d_model, dims->n_vocab}, formats->output());
  return out;
}

}  // namespace ebb::tools
