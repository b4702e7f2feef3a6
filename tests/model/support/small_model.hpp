// tests/model/support/small_model.hpp: a file of a qwen3moe model that can be opened and is small enough to cut at every byte.
#pragma once
#include "model/architecture.hpp"
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
  out.set("general.architecture", std::string("qwen3moe"));
  out.set("general.name", std::string("Small"));
  const std::string prefix = "qwen3moe.";
  out.set(prefix + "block_count", of.n_layers);
  out.set(prefix + "context_length", small::context_length);
  out.set(prefix + "embedding_length", of.d_model);
  out.set(prefix + "attention.head_count", small::n_heads);
  out.set(prefix + "attention.head_count_kv", small::n_kv_heads);
  out.set(prefix + "attention.key_length", small::head_dim);
  out.set(prefix + "attention.value_length", small::head_dim);
  out.set(prefix + "attention.layer_norm_rms_epsilon", 1e-6f);
  out.set(prefix + "rope.freq_base", 1e6f);
  out.set(prefix + "expert_count", of.n_experts);
  out.set(prefix + "expert_used_count", of.top_k);
  out.set(prefix + "expert_feed_forward_length", of.d_ff);
}

inline void set_tiny_vocabulary(gguf_writer& out) {
  const tokenizer_spec spec = tiny_spec();
  const std::string prefix = "tokenizer.ggml.";
  out.set(prefix + "model", std::string("gpt2"));
  out.set(prefix + "pre", spec.pre);
  out.set_array(prefix + "tokens", spec.tokens);
  out.set_array(prefix + "merges", spec.merges);
  out.set_array(prefix + "token_type", spec.token_types);
  out.set(prefix + "bos_token_id", static_cast<std::uint32_t>(*spec.bos));
  out.set(prefix + "eos_token_id", static_cast<std::uint32_t>(*spec.eos));
  out.set(prefix + "eot_token_id", static_cast<std::uint32_t>(spec.end_of_text.front()));
  out.set(prefix + "add_bos_token", false);
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
