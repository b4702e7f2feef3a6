#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rows.hpp"

namespace ebb::kernels::cuda {
namespace {

constexpr unsigned threads_per_row = 512;  // four values each

__global__ void __launch_bounds__(threads_per_row) norm_and_quantise_kernel(const float* x, const std::uint32_t* x_row, const float* weight, float eps,
                                                                            activation_buffer to) {
  begin_kernel();
  extern __shared__ __align__(16) float row[];
  __shared__ float inverse;
  const std::uint32_t n = to.n_cols;
  const float* from = x + std::size_t{x_row != nullptr ? x_row[blockIdx.x] : blockIdx.x} * n;
  for (std::uint32_t i = threadIdx.x * 4; i < n; i += blockDim.x * 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    row[place_of(i, n)] = four.x, row[place_of(i + 1, n)] = four.y, row[place_of(i + 2, n)] = four.z, row[place_of(i + 3, n)] = four.w;
  }
  __syncthreads();
  if (threadIdx.x < 8) {
    const float found = inverse_rms(row, n, eps, threadIdx.x);
    if (threadIdx.x == 0) inverse = found;
  }
  __syncthreads();
  const std::size_t first = std::size_t{blockIdx.x} * n;
  for (std::uint32_t i = threadIdx.x * 4; i < n; i += blockDim.x * 4) {
    const float4 scale = *reinterpret_cast<const float4*>(weight + i);
    const auto normed = [&](std::uint32_t at, float by) { return __fmul_rn(__fmul_rn(row[place_of(at, n)], inverse), by); };
    const float4 y{normed(i, scale.x), normed(i + 1, scale.y), normed(i + 2, scale.z), normed(i + 3, scale.w)};
    *reinterpret_cast<float4*>(to.x + first + i) = y;
    const float4 left = quantise_block(y, (first + i) / 32, to.part[0]);
    if (to.part[1].q != nullptr) quantise_block(left, (first + i) / 32, to.part[1]);
  }
}

// One block a head of a row: first the heads of q, then those of k, then those of v.
__global__ void turn_and_store_kernel(turn_arguments what) {
  begin_kernel();
  extern __shared__ __align__(16) float head[];
  __shared__ float inverse;
  const std::uint32_t n = what.to.head_dim, half = n / 2, row = blockIdx.y, n_kv = what.to.n_kv_heads;
  const window_row of = what.rows[row];
  const std::uint32_t which = blockIdx.x;
  if (which >= what.n_heads + n_kv) {
    const std::uint32_t kv_head = which - what.n_heads - n_kv;
    const float* from = what.v + (std::size_t{row} * n_kv + kv_head) * n;
    std::uint16_t* into = what.to.v + what.to.at(of.session, kv_head, of.position);
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) into[i] = float_as_half(from[i]);
    return;
  }
  const bool is_q = which < what.n_heads;
  const std::uint32_t kv_head = which - what.n_heads;
  const float* from = is_q ? what.q + (std::size_t{row} * what.n_heads + which) * n : what.k + (std::size_t{row} * n_kv + kv_head) * n;
  const float* norm = is_q ? what.q_norm : what.k_norm;
  for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) head[place_of(i, n)] = from[i];
  __syncthreads();
  if (norm != nullptr) {
    if (threadIdx.x < 8) {
      const float found = inverse_rms(head, n, what.eps, threadIdx.x);
      if (threadIdx.x == 0) inverse = found;
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) head[place_of(i, n)] = __fmul_rn(__fmul_rn(head[place_of(i, n)], inverse), norm[i]);
    __syncthreads();
  }
  const float* cos = what.cos + std::size_t{row} * half;
  const float* sin = what.sin + std::size_t{row} * half;
  for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
    const std::uint32_t pair = i < half ? i : i - half;
    const float x0 = head[place_of(pair, n)], x1 = head[place_of(pair + half, n)];
    const float turned = i < half ? __fmaf_rn(x0, cos[pair], -__fmul_rn(x1, sin[pair])) : __fmaf_rn(x1, cos[pair], __fmul_rn(x0, sin[pair]));
    if (is_q) what.q[(std::size_t{row} * what.n_heads + which) * n + i] = turned;
    else what.to.k[what.to.at(of.session, kv_head, of.position) + i] = float_as_half(turned);
  }
}

__global__ void swiglu_and_quantise_kernel(const float* gate, const float* up, std::size_t n_values, activation_buffer to) {
  begin_kernel();
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n_values) return;  // whole warps: the number of values is a multiple of 32
  const float u = __fmul_rn(exact_silu(gate[i]), up[i]);
  to.x[i] = u;
  quantise_twice(u, i / 32, to);
}

__global__ void combine_and_add_kernel(const float* out, const float* weight, std::uint32_t top_k, std::uint32_t n_cols, float* x) {
  begin_kernel();
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (i >= n_cols) return;
  float sum = 0.0f;
  for (std::uint32_t k = 0; k < top_k; ++k) {
    const std::size_t pair = std::size_t{row} * top_k + k;
    sum = __fmaf_rn(weight[pair], out[pair * n_cols + i], sum);
  }
  float* at = x + std::size_t{row} * n_cols + i;
  *at = __fadd_rn(*at, sum);
}

}  // namespace

void norm_and_quantise(const float* x, const std::uint32_t* x_row, const float* weight, float eps, std::uint32_t n_rows, const activation_buffer& to,
                       cudaStream_t stream) {
  launch_kernel(norm_and_quantise_kernel, dim3(n_rows), threads_per_row, 8 * lane_stride(to.n_cols) * sizeof(float), stream, x, x_row, weight, eps, to);
}

void turn_and_store(const turn_arguments& what, cudaStream_t stream) {
  const dim3 heads(what.n_heads + 2 * what.to.n_kv_heads, what.n_rows);
  launch_kernel(turn_and_store_kernel, dim3(heads), 128, 8 * lane_stride(what.to.head_dim) * sizeof(float), stream, what);
}

void swiglu_and_quantise(const float* gate, const float* up, std::uint32_t n_rows, const activation_buffer& hidden, cudaStream_t stream) {
  const std::size_t n_values = std::size_t{n_rows} * hidden.n_cols;
  launch_kernel(swiglu_and_quantise_kernel, dim3(static_cast<unsigned>((n_values + 255) / 256)), 256, 0, stream, gate, up, n_values, hidden);
}

void combine_and_add(const float* out, const float* weight, std::uint32_t top_k, std::uint32_t n_rows, std::uint32_t n_cols, float* x,
                     cudaStream_t stream) {
  launch_kernel(combine_and_add_kernel, dim3((n_cols + 255) / 256, n_rows), 256, 0, stream, out, weight, top_k, n_cols, x);
}

}  // namespace ebb::kernels::cuda
