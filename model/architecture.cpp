#include "model/architecture.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

namespace ebb::model {
namespace {

constexpr std::array table = {
    architecture{.name = "qwen3moe",
                 .layer = {.attn_norm = "attn_norm.weight",
                           .attn_q = "attn_q.weight",
                           .attn_k = "attn_k.weight",
                           .attn_v = "attn_v.weight",
                           .attn_output = "attn_output.weight",
                           .attn_q_norm = "attn_q_norm.weight",
                           .attn_k_norm = "attn_k_norm.weight",
                           .ffn_norm = "ffn_norm.weight",
                           .router = "ffn_gate_inp.weight",
                           .gate_experts = "ffn_gate_exps.weight",
                           .up_experts = "ffn_up_exps.weight",
                           .down_experts = "ffn_down_exps.weight"}},
};

constexpr std::uint32_t head_dim_multiple = 8;  // the lanes of kernels/attention.hpp
constexpr std::uint32_t width_multiple = 32;    // a block of quantised activations
constexpr double rope_base_default = 10000.0;   // the format's, where a file has no key
constexpr std::uint64_t width_max = 1u << 30;   // rows and columns of a matrix are counted in 32 bits, with room for sums

// Keys of things that no architecture of the table does. 0 says that a model does not use them, and so does `neutral`; any other
// value would make its answers wrong if it were passed over.
struct unused_feature {
  std::string_view key;  // behind the architecture's name and a dot
  double neutral;
};
constexpr std::array unused_features = {
    unused_feature{"rope.scaling.factor", 1},
    unused_feature{"rope.scale_linear", 1},
    unused_feature{"attention.sliding_window", 0},
    unused_feature{"attention.scale", 0},
    unused_feature{"attention.clamp_kqv", 0},
    unused_feature{"attention.max_alibi_bias", 0},
    unused_feature{"leading_dense_block_count", 0},
    unused_feature{"nextn_predict_layers", 0},
    unused_feature{"expert_shared_count", 0},
    unused_feature{"expert_group_count", 1},
    unused_feature{"expert_gating_func", 1},
    unused_feature{"expert_weights_scale", 1},
    unused_feature{"embedding_scale", 1},
    unused_feature{"residual_scale", 1},
    unused_feature{"logit_scale", 1},
    unused_feature{"final_logit_softcapping", 0},
    unused_feature{"attn_logit_softcapping", 0},
};

// Reads the keys of one file for read_shape and keeps the first error, so that a shape reads as a list of its keys.
class shape_reader {
 public:
  shape_reader(const gguf& file, const architecture& family) : file_(file), prefix_(std::string(family.name) + ".") {}

  // A whole number above 0.
  std::uint32_t count(std::string_view key) { return positive(key, read(file_.require<std::uint32_t>(prefix_ + std::string(key)))); }
  std::uint32_t count_or(std::string_view key, std::uint32_t fallback) {
    return positive(key, read(file_.value_or<std::uint32_t>(prefix_ + std::string(key), fallback)));
  }
  // A finite number above 0.
  double number(std::string_view key) { return positive(key, read(file_.require<double>(prefix_ + std::string(key)))); }
  double number_or(std::string_view key, double fallback) {
    return positive(key, read(file_.value_or<double>(prefix_ + std::string(key), fallback)));
  }

  void expect(bool holds, std::string_view key, std::uint64_t value, const std::string& what) {
    if (!holds) refuse(errc::bad_value, key, "is " + std::to_string(value) + ", but " + what);
  }
  void expect_multiple(std::string_view key, std::uint64_t value, std::uint32_t multiple) {
    expect(value % multiple == 0, key, value, "must be a multiple of " + std::to_string(multiple));
  }

  void refuse(errc code, std::string_view key, const std::string& what) {
    if (failure_) return;
    failure_ = error{code, file_.name() + ": key " + in_quotes(prefix_ + std::string(key)) + " " + what + "; such a model cannot be run."};
  }

  void refuse_unused_features();
  std::uint32_t read_n_vocab();

  const std::optional<error>& failure() const noexcept { return failure_; }

 private:
  // The value, or none after an error.
  template <class T>
  T read(result<T> value) {
    if (value) return *std::move(value);
    if (!failure_) failure_ = std::move(value.error());
    return T{};
  }
  // The value, or after an error 1, by which the reading can go on and divide.
  template <class T>
  T positive(std::string_view key, T value) {
    if (value > T(0) && value <= std::numeric_limits<T>::max()) return value;
    if (!failure_) refuse(errc::bad_value, key, "is " + text_of(key) + ", which is out of range");
    return T(1);
  }

  // Pre: the key is there, because its value was found wanting and a fallback never is.
  std::string text_of(std::string_view key) const { return to_text(*file_.find(prefix_ + std::string(key))); }

  const gguf& file_;
  std::string prefix_;
  std::optional<error> failure_;
};

void shape_reader::refuse_unused_features() {
  const std::string scaling = "rope.scaling.type";
  const auto type = read(file_.value_or<std::string_view>(prefix_ + scaling, "none"));
  if (type != "none") refuse(errc::unsupported_architecture, scaling, "is " + in_quotes(type) + ", but only unscaled rotation is supported");
  for (const auto& [key, neutral] : unused_features) {
    const double value = read(file_.value_or<double>(prefix_ + std::string(key), neutral));
    if (value == 0 || value == neutral) continue;
    refuse(errc::unsupported_architecture, key, "is " + text_of(key) + ", which is not supported for this architecture");
  }
}

std::uint32_t shape_reader::read_n_vocab() {
  const gguf_tensor* const embedding = read(file_.require_tensor("token_embd.weight"));
  if (failure_) return 1;
  const std::uint64_t n_vocab = embedding->dims[1];
  if (n_vocab > width_max) {
    failure_ = error{errc::bad_value, file_.name() + ": tensor \"token_embd.weight\" has the shape " + shape_text(*embedding) +
                                          ", more tokens than a vocabulary can have."};
    return 1;
  }
  return static_cast<std::uint32_t>(n_vocab);
}

shape read_keys(shape_reader& in) {
  shape out{};
  out.n_layers = in.count("block_count");
  out.context_length = in.count("context_length");
  out.d_model = in.count("embedding_length");
  out.n_heads = in.count("attention.head_count");
  out.n_kv_heads = in.count_or("attention.head_count_kv", out.n_heads);
  out.head_dim = in.count_or("attention.key_length", std::max(out.d_model / out.n_heads, 1u));
  out.n_experts = in.count("expert_count");
  out.top_k = in.count("expert_used_count");
  out.d_ff = in.count("expert_feed_forward_length");
  out.rms_eps = static_cast<float>(in.number("attention.layer_norm_rms_epsilon"));
  out.rope_base = in.number_or("rope.freq_base", rope_base_default);
  out.n_vocab = in.read_n_vocab();
  return out;
}

void check_keys(shape_reader& in, const shape& dims) {
  in.expect(dims.n_heads % dims.n_kv_heads == 0, "attention.head_count", dims.n_heads,
            "must be a multiple of attention.head_count_kv, " + std::to_string(dims.n_kv_heads));
  in.expect(dims.top_k <= dims.n_experts, "expert_used_count", dims.top_k, "there are only " + std::to_string(dims.n_experts) + " experts");
  in.expect_multiple("attention.key_length", dims.head_dim, head_dim_multiple);
  in.expect_multiple("embedding_length", dims.d_model, width_multiple);
  in.expect_multiple("expert_feed_forward_length", dims.d_ff, width_multiple);

  const std::uint64_t attended = std::uint64_t{dims.n_heads} * dims.head_dim;
  in.expect(attended % width_multiple == 0 && attended <= width_max, "attention.head_count", dims.n_heads,
            "times a head of " + std::to_string(dims.head_dim) + " values must be a multiple of " + std::to_string(width_multiple));
  for (const auto& [key, width] : {std::pair{"embedding_length", dims.d_model}, {"expert_feed_forward_length", dims.d_ff}}) {
    in.expect(width <= width_max, key, width, "must not exceed " + std::to_string(width_max));
  }
  const auto same_as_head = [&](std::string_view key) {
    const std::uint32_t value = in.count_or(key, dims.head_dim);
    in.expect(value == dims.head_dim, key, value, "only that of a whole head, " + std::to_string(dims.head_dim) + ", is supported");
  };
  same_as_head("attention.value_length");
  same_as_head("rope.dimension_count");
}

constexpr std::string_view layer_prefix = "blk.";

}  // namespace

bool contains(const layer_tensor_names& names, std::string_view name) noexcept {
  const std::array all = {names.attn_norm,   names.attn_q,   names.attn_k, names.attn_v,       names.attn_output, names.attn_q_norm,
                          names.attn_k_norm, names.ffn_norm, names.router, names.gate_experts, names.up_experts,  names.down_experts};
  return !name.empty() && std::ranges::find(all, name) != all.end();
}

std::string layer_tensor_name(std::uint32_t layer, std::string_view name) {
  return std::string(layer_prefix) + std::to_string(layer) + "." + std::string(name);
}

std::optional<layer_tensor> split_layer_tensor_name(std::string_view full_name) noexcept {
  if (!full_name.starts_with(layer_prefix)) return std::nullopt;
  const std::string_view rest = full_name.substr(layer_prefix.size());
  layer_tensor out{};
  const auto [end, failure] = std::from_chars(rest.begin(), rest.end(), out.layer);
  if (failure != std::errc() || end == rest.end() || *end != '.') return std::nullopt;
  out.name = rest.substr(static_cast<std::size_t>(end - rest.begin()) + 1);
  return out;
}

std::span<const architecture> architectures() noexcept { return table; }

result<const architecture*> find_architecture(const gguf& file) {
  const auto name = file.require<std::string_view>("general.architecture");
  if (!name) return fail(name.error());
  std::string known;
  for (const architecture& each : table) {
    if (each.name == *name) return &each;
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  return fail(errc::unsupported_architecture, file.name() + " has the architecture " + in_quotes(*name) + "; supported are: " + known + ".");
}

result<shape> read_shape(const gguf& file, const architecture& family) {
  shape_reader in(file, family);
  const shape out = read_keys(in);
  check_keys(in, out);
  in.refuse_unused_features();
  if (in.failure()) return fail(*in.failure());
  return out;
}

void write_shape(const shape& dims, const architecture& family, gguf_keys& out) {
  out.set("general.architecture", std::string(family.name));
  const std::string prefix = std::string(family.name) + ".";
  out.set(prefix + "block_count", dims.n_layers);
  out.set(prefix + "context_length", dims.context_length);
  out.set(prefix + "embedding_length", dims.d_model);
  out.set(prefix + "attention.head_count", dims.n_heads);
  out.set(prefix + "attention.head_count_kv", dims.n_kv_heads);
  out.set(prefix + "attention.key_length", dims.head_dim);
  out.set(prefix + "attention.value_length", dims.head_dim);
  out.set(prefix + "attention.layer_norm_rms_epsilon", dims.rms_eps);
  out.set(prefix + "rope.freq_base", static_cast<float>(dims.rope_base));
  out.set(prefix + "expert_count", dims.n_experts);
  out.set(prefix + "expert_used_count", dims.top_k);
  out.set(prefix + "expert_feed_forward_length", dims.d_ff);
}

}  // namespace ebb::model
