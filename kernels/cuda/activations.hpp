// kernels/cuda/activations.hpp: rows of activations in the GPU's memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ebb::kernels::cuda {

// As kernels::quantised_rows, writable. Every pointer is 16-byte aligned and rows lie one behind the other.
struct quantised_buffer {
  std::int8_t* q = nullptr;     // [n_rows, n_cols]
  float* d = nullptr;           // [n_rows, n_cols / 32]
  std::int32_t* sum = nullptr;  // [n_rows, n_cols / 32]
};

struct activation_buffer {
  float* x = nullptr;           // [n_rows, n_cols]
  quantised_buffer part[2];     // the rows, and their residuals, or nulls
  std::uint32_t n_cols = 0;
};

// The rows from one on.
inline activation_buffer from_row(const activation_buffer& all, std::size_t row) {
  activation_buffer part = all;
  part.x += row * all.n_cols;
  for (quantised_buffer& of : part.part) {
    if (of.q == nullptr) continue;
    of.q += row * all.n_cols;
    of.d += row * all.n_cols / 32;
    of.sum += row * all.n_cols / 32;
  }
  return part;
}

}  // namespace ebb::kernels::cuda
