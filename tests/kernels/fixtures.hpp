// tests/kernels/fixtures.hpp: what the kernel tests share: golden blocks, random rows, and buffers that end where memory ends.
#pragma once
#include "kernels/cpu/ops.hpp"
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ebb::kernels::test {

inline constexpr double unit = 0x1p-24;    // half a step of a float near 1: the relative error of one rounding
inline constexpr double slack = 1.01;      // for products of errors, which the bounds leave out
inline constexpr double exp_error = 8e-8;  // relative, of exact_exp

// The formats that have kernels.
std::vector<format> formats_with_kernels();

// The bytes of a file of EBB_TEST_DATA; fails the test if there is none.
std::vector<std::byte> read_data(const std::string& name);

// The instruction sets beside scalar that this machine has. Says on the console which are left out.
std::vector<cpu::isa> vector_isas();

// Memory for `count` values of T whose last byte is the last before a page that cannot be read.
template <class T>
class guarded {
 public:
  explicit guarded(std::size_t count);
  explicit guarded(std::span<const T> values) : guarded(values.size()) { std::memcpy(data(), values.data(), values.size_bytes()); }
  guarded(const guarded&) = delete;
  guarded& operator=(const guarded&) = delete;
  ~guarded();
  T* data() noexcept { return reinterpret_cast<T*>(static_cast<std::byte*>(mapping_) + begin_); }

 private:
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::size_t begin_ = 0;
};

// Draws; every test says its seed, so a failure comes back.
class generator {
 public:
  explicit generator(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t end) { return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(engine_); }
  float normal() { return normal_(engine_); }
  std::vector<float> normals(std::size_t count);
  std::vector<std::uint16_t> halves(std::size_t count);  // of normals

  // Rows of random bits, but with finite factors of ordinary size: of both signs, sometimes 0, sometimes a subnormal half.
  std::vector<std::byte> weights(format type, std::size_t n_values);

 private:
  std::uint16_t factor();
  std::mt19937 engine_;
  std::normal_distribution<float> normal_{0.0f, 1.0f};
};

// Activations that own their arrays, quantised by the scalar definition, residuals too.
struct owned_activations {
  owned_activations(generator& random, std::uint32_t n_rows, std::uint32_t n_cols);
  activations view(std::uint32_t n_parts = 1) const;

  std::uint32_t n_cols;
  std::vector<float> x, d;
  std::vector<std::int8_t> q;
  std::vector<std::int32_t> sum;
  std::vector<float> residual_d;
  std::vector<std::int8_t> residual_q;
  std::vector<std::int32_t> residual_sum;
};

bool same_bits(std::span<const float> a, std::span<const float> b);

}  // namespace ebb::kernels::test
