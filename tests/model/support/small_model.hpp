// tests/model/support/small_model.hpp: a file of a qwen3moe model that can be opened and is small enough to cut at every byte.
#pragma once
#include "model/architecture.hpp"
#include "model/vocabulary.hpp"
#include "tests/model/support/gguf_writer.hpp"
#include "tests/model/support/tiny_vocabulary.hpp"
#include <cstdint>
#include <string>

namespace ebb::model::test {

namespace small {
inline constexpr std::uint32_t n_layers = 2, n_vocab = 272, context_length = 128;
inline constexpr std::uint32_t d_model = 32, n_heads = 4, n_kv_heads = 2, head_dim = 16;
inline constexpr std::uint32_t n_experts = 4, top_k = 2, d_ff = 64;
}  // namespace small

// What such a model may be given otherwise.
struct small_shape {
  std::uint32_t n_layers = small::n_layers, d_model = small::d_model, d_ff = small::d_ff;
  std::uint32_t n_experts = small::n_experts, top_k = small::top_k;
};

inline void set_small_keys(gguf_writer& out, const small_shape& of = {}) {
  const shape dims{.n_layers = of.n_layers, .n_vocab = small::n_vocab, .context_length = small::context_length,
                   .d_model = of.d_model, .n_heads = small::n_heads, .n_kv_heads = small::n_kv_heads, .head_dim = small::head_dim,
                   .n_experts = of.n_experts, .top_k = of.top_k, .d_ff = of.d_ff,
                   .rms_eps = 1e-6f, .rope_base = 1e6};
  write_shape(dims, architectures().front(), out);
  out.set("general.name", std::string("Small"));
}

inline void set_tiny_vocabulary(gguf_writer& out) {
  tokenizer_spec spec = tiny_spec();
  spec.add_bos = false;
  write_vocabulary(spec, out);
}

inline void add_small_layer(gguf_writer& out, std::uint32_t index, const small_shape& of = {}) {
  using kernels::format;
  const auto name = [index](std::string_view behind) { return layer_tensor_name(index, behind); };
  out.add_tensor(name("attn_norm.weight"), {of.d_model}, format::f32);
  out.add_tensor(name("attn_q.weight"), {of.d_model, small::n_heads * small::head_dim}, format::q8_0);
  out.add_tensor(name("attn_k.weight"), {of.d_model, small::n_kv_heads * small::head_dim}, format::q8_0);
  out.add_tensor(name("attn_v.weight"), {of.d_model, small::n_kv_heads * small::head_dim}, format::f16);
  out.add_tensor(name("attn_q_norm.weight"), {small::head_dim}, format::f32);
  out.add_tensor(name("attn_k_norm.weight"), {small::head_dim}, format::bf16);
  out.add_tensor(name("attn_output.weight"), {small::n_heads * small::head_dim, of.d_model}, format::q4_0);
  out.add_tensor(name("ffn_norm.weight"), {of.d_model}, format::f32);
  out.add_tensor(name("ffn_gate_inp.weight"), {of.d_model, of.n_experts}, format::f32);
  out.add_tensor(name("ffn_gate_exps.weight"), {of.d_model, of.d_ff, of.n_experts}, format::q4_0);
  out.add_tensor(name("ffn_up_exps.weight"), {of.d_model, of.d_ff, of.n_experts}, format::q4_1);
  // The second layer's experts are larger than the first's, as in files that keep some layers in a finer format.
  out.add_tensor(name("ffn_down_exps.weight"), {of.d_ff, of.d_model, of.n_experts}, index == 0 ? format::q5_0 : format::q8_0);
}

inline gguf_writer small_model(const small_shape& of = {}) {
  gguf_writer out;
  set_small_keys(out, of);
  set_tiny_vocabulary(out);
  out.add_tensor("token_embd.weight", {of.d_model, small::n_vocab}, kernels::format::q4_0);
  for (std::uint32_t index = 0; index < of.n_layers; ++index) add_small_layer(out, index, of);
  out.add_tensor("output_norm.weight", {of.d_model}, kernels::format::f32);
  out.add_tensor("output.weight", {of.d_model, small::n_vocab}, kernels::format::q8_0);
  return out;
}

}  // namespace ebb::model::test
