// model/architecture.hpp: the families of models as data. The next family is an entry of the table and its differences.
//
// Shapes use the field's letters: n_layers, d_model, n_heads, n_kv_heads, head_dim, n_experts, top_k, d_ff (width of an expert).
#pragma once
#include "config/result.hpp"
#include "model/gguf.hpp"
#include "model/gguf_writer.hpp"
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ebb::model {

// Names of a layer's tensors behind "blk.N."; an empty name says that the family has no such tensor.
struct layer_tensor_names {
  std::string_view attn_norm, attn_q, attn_k, attn_v, attn_output;
  std::string_view attn_q_norm, attn_k_norm;  // rms norm of each head of q and k, before the rotation
  std::string_view ffn_norm, router;
  std::string_view gate_experts, up_experts, down_experts;
};

struct architecture {
  std::string_view name;  // general.architecture, also the prefix of its keys
  layer_tensor_names layer;
};

// Is `name`, as it stands behind "blk.N.", one of them?
bool contains(const layer_tensor_names& names, std::string_view name) noexcept;

// "blk.3.attn_q.weight" from 3 and "attn_q.weight", and back: nothing for what is not of that form.
struct layer_tensor {
  std::uint32_t layer;
  std::string_view name;
};
std::string layer_tensor_name(std::uint32_t layer, std::string_view name);
std::optional<layer_tensor> split_layer_tensor_name(std::string_view full_name) noexcept;

// The table. Order has no meaning.
std::span<const architecture> architectures() noexcept;

// Errors: missing_key (no general.architecture), unsupported_architecture (names those of the table).
result<const architecture*> find_architecture(const gguf& file);

// What the keys of a file say, checked against each other. Every count > 0.
struct shape {
  std::uint32_t n_layers, n_vocab, context_length;
  std::uint32_t d_model, n_heads, n_kv_heads, head_dim;
  std::uint32_t n_experts, top_k, d_ff;
  float rms_eps;
  double rope_base;
};

// Errors: missing_key, bad_value (zero, n_heads not a multiple of n_kv_heads, top_k > n_experts, head_dim not a multiple of 8,
// a width that is not a multiple of 32; each names its key), and what gguf's readers of keys report.
result<shape> read_shape(const gguf& file, const architecture& family);

// The keys that read_shape would read that from, general.architecture included. n_vocab is no key.
void write_shape(const shape& dims, const architecture& family, gguf_keys& out);

}  // namespace ebb::model
