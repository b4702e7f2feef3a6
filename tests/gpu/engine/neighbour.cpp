#include "tests/gpu/engine/neighbour.hpp"
#include "kernels/cuda/rows.hpp"
#include "tests/gpu/rehearsal.hpp"
#include <algorithm>
#include <bit>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace ebb::test {
namespace {

constexpr std::size_t piece_bytes = 1u << 20;  // each with a value of its own in its first half, and the same in every second half
constexpr std::size_t half_floats = piece_bytes / sizeof(float) / 2;
constexpr std::uint32_t n_cols = 2048, n_rows = half_floats / n_cols;
constexpr unsigned char second_byte = 0x3f;

unsigned char first_byte(std::uint64_t piece) { return static_cast<unsigned char>(0x20 + piece % 0x20); }
float value_of(unsigned char byte) { return std::bit_cast<float>(byte * 0x01010101u); }

struct failure {
  const char* doing;
  cudaError_t why;
};

void require(const char* doing, cudaError_t outcome) {
  if (outcome != cudaSuccess) throw failure{doing, outcome};
}

class memory {
 public:
  explicit memory(std::uint64_t mib) : mib_(mib) {
    require("taking memory", cudaMalloc(reinterpret_cast<void**>(&bytes_), mib * piece_bytes));
    require("taking memory for weights", cudaMalloc(reinterpret_cast<void**>(&ones_), n_rows * sizeof(float)));
  }

  void compute() const {
    const std::vector<float> ones(n_rows, 1.0f);
    require("writing weights", cudaMemcpy(ones_, ones.data(), n_rows * sizeof(float), cudaMemcpyHostToDevice));
    for (std::uint64_t piece = 0; piece < mib_; ++piece) {
      unsigned char* const first = bytes_ + piece * piece_bytes;
      unsigned char* const second = first + piece_bytes / 2;
      require("writing", cudaMemsetAsync(first, first_byte(piece), piece_bytes / 2, nullptr));
      require("writing", cudaMemsetAsync(second, second_byte, piece_bytes / 2, nullptr));
      kernels::cuda::combine_and_add(reinterpret_cast<float*>(second), ones_, 1, n_rows, n_cols, reinterpret_cast<float*>(first), nullptr);
    }
    require("beginning to compute", cudaGetLastError());
    require("computing", cudaDeviceSynchronize());
  }

  bool holds_the_sums() const {
    std::vector<float> read(half_floats);
    for (std::uint64_t piece = 0; piece < mib_; ++piece) {
      require("reading", cudaMemcpy(read.data(), bytes_ + piece * piece_bytes, piece_bytes / 2, cudaMemcpyDeviceToHost));
      const float expected = value_of(first_byte(piece)) + value_of(second_byte);
      if (std::all_of(read.begin(), read.end(), [&](float value) { return value == expected; })) continue;
      std::fprintf(stderr, "neighbour: MiB %llu of its memory holds what it did not compute\n", static_cast<unsigned long long>(piece));
      return false;
    }
    return true;
  }

 private:
  std::uint64_t mib_;
  unsigned char* bytes_ = nullptr;  // with the process
  float* ones_ = nullptr;
};

void hold_until_told() {
  std::puts("ok");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) continue;
}

int live(std::uint64_t mib, int gpu) {
  std::string line;
  if (!std::getline(std::cin, line)) return 0;
  if (rehearses_on_host()) {
    hold_until_told();
    return 0;
  }
  require("taking its GPU", cudaSetDevice(gpu));
  require("taking a context", cudaFree(nullptr));
  const memory taken(mib);
  taken.compute();
  if (!taken.holds_the_sums()) return 4;
  hold_until_told();
  return taken.holds_the_sums() ? 0 : 4;
}

}  // namespace

int be_neighbour(std::uint64_t mib, int gpu) {
  try {
    return live(mib, gpu);
  } catch (const failure& what) {
    std::fprintf(stderr, "neighbour: %s: %s\n", what.doing, cudaGetErrorString(what.why));
    return what.why == cudaErrorMemoryAllocation ? neighbour_out_of_memory : 4;
  }
}

}  // namespace ebb::test
