// tests/sim/support/sim_model.hpp: a model for simulations: experts of 120 KiB, so that a lease of a MiB takes some of them away, and
// little to compute. Its weights are seeded noise; every format of a weight has its own tests elsewhere.
#pragma once
#include "support/demo.hpp"
#include "tests/model/support/small_model.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <cmath>
#include <random>

namespace ebb::sim {

inline constexpr std::uint32_t n_layers = 3;

// Noise of a size that keeps activations near 1; norms are 1.
inline void fill_with_noise(model::test::written_tensor& tensor, std::mt19937& random) {
  const std::uint64_t n_values = tensor.data.size() / sizeof(float);
  const bool norm = tensor.dims.size() == 1;
  const float spread = 2 / std::sqrt(static_cast<float>(tensor.dims[0]));
  for (std::uint64_t i = 0; i < n_values; ++i) {
    const float noise = (static_cast<float>(random() >> 8) / (1 << 24) * 2 - 1) * spread;
    const float value = norm ? 1.0f : noise;
    std::memcpy(tensor.data.data() + i * sizeof value, &value, sizeof value);
  }
}

inline model::test::gguf_writer model_file() {
  model::test::gguf_writer out = model::test::small_model({.n_layers = n_layers, .d_model = 64, .d_ff = 160, .n_experts = 16, .top_k = 2});
  std::mt19937 random(7);
  for (auto& tensor : out.tensors) {
    std::uint64_t n_values = 1;
    for (const std::uint64_t dim : tensor.dims) n_values *= dim;
    tensor.format = static_cast<std::uint32_t>(kernels::format::f32);
    tensor.data.resize(n_values * sizeof(float));
    fill_with_noise(tensor, random);
  }
  return out;
}

// Opened once; the file is gone again at once, and stays mapped.
inline const actors::test::demo_model& the_model() {
  static const actors::test::demo_model opened = [] {
    const model::test::temporary_folder folder;
    auto weights = model::checkpoint::open(model_file().write(folder / "sim.gguf"));
    REQUIRE(weights);
    auto vocabulary = model::read_vocabulary((*weights)->file());
    REQUIRE(vocabulary);
    return actors::test::demo_model{*weights, *vocabulary};
  }();
  return opened;
}

// The hash of an undisturbed answer.
inline const std::string& hash_of(const std::string& prompt, std::uint32_t n_tokens) {
  static std::map<std::pair<std::string, std::uint32_t>, std::string> known;
  const auto [found, fresh] = known.try_emplace({prompt, n_tokens});
  if (fresh) found->second = actors::test::plain_answer(the_model(), prompt, n_tokens).logits_hash;
  return found->second;
}

}  // namespace ebb::sim
