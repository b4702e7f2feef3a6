#include "tests/gpu/engine/neighbour.hpp"
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <iostream>
#include <string>
#include <vector>

namespace ebb::test {
namespace {

constexpr std::size_t piece_bytes = 1u << 20;  // each with a byte of its own

int failed(const char* doing, cudaError_t why) {
  std::fprintf(stderr, "neighbour: %s: %s\n", doing, cudaGetErrorString(why));
  return why == cudaErrorMemoryAllocation ? neighbour_out_of_memory : 4;
}

unsigned char byte_of(std::uint64_t piece) { return static_cast<unsigned char>(piece * 37 + 11); }

}  // namespace

int be_neighbour(std::uint64_t mib) {
  std::string line;
  if (!std::getline(std::cin, line)) return 0;
  if (const auto outcome = cudaFree(nullptr); outcome != cudaSuccess) return failed("taking a context", outcome);
  unsigned char* memory = nullptr;
  if (const auto outcome = cudaMalloc(&memory, mib * piece_bytes); outcome != cudaSuccess) return failed("taking memory", outcome);
  for (std::uint64_t piece = 0; piece < mib; ++piece) {
    if (const auto outcome = cudaMemset(memory + piece * piece_bytes, byte_of(piece), piece_bytes); outcome != cudaSuccess)
      return failed("writing", outcome);
  }
  std::vector<unsigned char> read(piece_bytes);
  for (std::uint64_t piece = 0; piece < mib; ++piece) {
    const auto outcome = cudaMemcpy(read.data(), memory + piece * piece_bytes, piece_bytes, cudaMemcpyDeviceToHost);
    if (outcome != cudaSuccess) return failed("reading", outcome);
    if (std::all_of(read.begin(), read.end(), [&](unsigned char byte) { return byte == byte_of(piece); })) continue;
    std::fprintf(stderr, "neighbour: MiB %llu of its memory holds what it did not write\n", static_cast<unsigned long long>(piece));
    return 4;
  }
  std::puts("ok");
  std::fflush(stdout);
  while (std::getline(std::cin, line)) continue;
  return 0;
}

}  // namespace ebb::test
