// kernels/cuda/rows.hpp: what is done to rows of floats on a GPU: norm, rotation, quantisation. Launchers enqueue on `stream` and return.
//
// Rows of activations are as in kernels/cuda/activations.hpp. All sizes are checked by who makes the stage: n_cols % 32 == 0.
#pragma once
#include "kernels/cuda/activations.hpp"
#include "kernels/window_row.hpp"
#include <cuda_runtime.h>

namespace ebb::kernels::cuda {

// y row i = rms_norm(x row x_row[i] (or i, where null)), as floats and quantised; without residuals where to.part[1].q is null.
// One block a row, which must fit into shared memory: n_cols <= 11,264 without asking the device for more.
void norm_and_quantise(const float* x, const std::uint32_t* x_row, const float* weight, float eps, std::uint32_t n_rows, const activation_buffer& to,
                       cudaStream_t stream);

// Where a layer's keys, or values, lie: [n_sessions, n_kv_heads, context, head_dim] half.
struct kv_layer {
  std::uint16_t* k = nullptr;
  std::uint16_t* v = nullptr;
  std::uint32_t n_kv_heads = 0, context = 0, head_dim = 0;
  __host__ __device__ std::size_t at(std::uint32_t session, std::uint32_t head, std::uint32_t position) const {
    return ((std::size_t{session} * n_kv_heads + head) * context + position) * head_dim;
  }
};

struct turn_arguments {
  float* q;                                  // [n_rows, n_heads * head_dim], normed and turned in place
  const float *k, *v;                        // [n_rows, n_kv_heads * head_dim]
  const float *q_norm, *k_norm;              // [head_dim], or null: no norm
  float eps;
  const float *cos, *sin;                    // [n_rows, head_dim / 2]
  const window_row* rows;                    // [n_rows]
  std::uint32_t n_rows, n_heads;
  kv_layer to;                               // keys normed and turned, values as they are, as halves
};
void turn_and_store(const turn_arguments& what, cudaStream_t stream);

// hidden = swiglu(gate, up), quantised in both parts; [n_rows, n_cols] each.
void swiglu_and_quantise(const float* gate, const float* up, std::uint32_t n_rows, const activation_buffer& hidden, cudaStream_t stream);

// x[row, :] += sum over k of weight[row, k] * out[row * top_k + k, :], in rank order from +0.
void combine_and_add(const float* out, const float* weight, std::uint32_t top_k, std::uint32_t n_rows, std::uint32_t n_cols, float* x,
                     cudaStream_t stream);

}  // namespace ebb::kernels::cuda
