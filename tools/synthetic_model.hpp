// tools/synthetic_model.hpp: a model of random weights at the shape, and in the formats, of a real one.
//
// So that speed and memory can be measured where nobody has, or may hand on, the weights. What is like a real model: every tensor, size
// and format; activations that stay finite and of order 1; routers that pick a few experts most of the time, other ones in each layer. What
// is not: its answers mean nothing, and its picks do not hang together from one token to the next.
#pragma once
#include "config/result.hpp"
#include "model/architecture.hpp"
#include "model/gguf_writer.hpp"
#include "tools/synthetic_values.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::tools {

inline constexpr std::string_view synthetic_shape_default = "qwen3-30b-a3b";
inline constexpr std::string_view synthetic_formats_default = "q4_k_m";
inline constexpr double synthetic_skew_default = 0.6;

struct synthetic_options {
  std::string shape{synthetic_shape_default};      // one of synthetic_shapes()
  std::string formats{synthetic_formats_default};  // the mix of that name; or one format, by its name in GGUF, for every expert in it
  std::optional<std::uint32_t> n_layers, n_experts, top_k, n_vocab;  // in place of the shape's
  std::uint64_t seed = 1;
  double skew = synthetic_skew_default;            // share of a layer's picks that its hottest quarter of experts gets
};

// "qwen3-30b-a3b", "tiny", and "odd" with numbers that the others do not have. Rows of experts that are no whole number of a format's blocks are
// in Q8_0.
std::vector<std::string_view> synthetic_shapes();

struct synthetic_model {
  model::shape dims;
  std::uint64_t seed;
  model::gguf_keys keys;
  std::vector<model::tensor_plan> tensors;
  std::vector<value_spread> spreads;  // one a tensor
};

// Errors: bad_value (an unknown shape or format, with the known ones; a number out of range; a skew that these experts cannot have).
result<synthetic_model> make_synthetic(const synthetic_options& options);

// The experts of a layer, hottest first.
std::vector<std::uint32_t> hottest_first(std::uint64_t seed, std::uint32_t layer, std::uint32_t n_experts);

}  // namespace ebb::tools
