// kernels/cuda/matvec.hpp: products of weights with at most matvec_rows_max rows of activations: bound by reading the weights once.
//
//   y[i, r] = sum over c of weight[r, c] * x[i, c]        kernels/matmul.hpp has the order of sums
//
// Work:   a warp a row of weights, all of whose sub-blocks are read at once; jobs that are neighbours and have one format are one launch.
#pragma once
#include "kernels/cuda/activations.hpp"
#include "kernels/format.hpp"
#include <cuda_runtime.h>

namespace ebb::kernels::cuda {

inline constexpr std::uint32_t matvec_rows_max = 8;

// Weights in the GPU's memory. K-quants begin at a multiple of 16, the others at a multiple of 4.
struct device_weights {
  const std::uint8_t* data = nullptr;
  format type = format::f32;
  std::uint32_t n_rows = 0, n_cols = 0;
};

// Products that share their activations.
struct matvec_job {
  device_weights w;
  float* y = nullptr;          // [n, w.n_rows]
  bool add = false;            // y + the product, rounded once more, instead of the product
};
inline constexpr unsigned matvec_jobs_max = 3;

// Pre: 1 <= n <= matvec_rows_max, 1 <= n_jobs <= matvec_jobs_max, all with the same n_cols.
void matvec(const matvec_job* jobs, unsigned n_jobs, const activation_buffer& x, std::uint32_t n, cudaStream_t stream);

}  // namespace ebb::kernels::cuda
