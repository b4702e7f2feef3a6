#include "config/assert.hpp"
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"

namespace ebb::kernels::cuda {
namespace {

constexpr std::uint32_t chunk = attention_chunk;
constexpr std::uint32_t mix_unroll = 8;

// Eight keys' values, as floats.
__device__ inline void unpack(uint4 eight, float (&key)[8]) {
  const __half2* halves = reinterpret_cast<const __half2*>(&eight);
#pragma unroll
  for (unsigned j = 0; j < 4; ++j) {
    const float2 two = __half22float2(halves[j]);
    key[2 * j] = two.x, key[2 * j + 1] = two.y;
  }
}

// The lanes of Heads queries, which lie in shared memory, and one key.
template <unsigned Heads>
__device__ inline void dot_lanes(const float* q, const uint4* k, std::uint32_t head_dim, float (&lane)[Heads][8]) {
#pragma unroll 8
  for (std::uint32_t i = 0; i < head_dim / 8; ++i) {
    float key[8];
    unpack(k[i], key);
#pragma unroll
    for (unsigned h = 0; h < Heads; ++h) {
      const float4 low = *reinterpret_cast<const float4*>(&q[h * head_dim + i * 8]);
      const float4 high = *reinterpret_cast<const float4*>(&q[h * head_dim + i * 8 + 4]);
      lane[h][0] = __fmaf_rn(low.x, key[0], lane[h][0]);
      lane[h][1] = __fmaf_rn(low.y, key[1], lane[h][1]);
      lane[h][2] = __fmaf_rn(low.z, key[2], lane[h][2]);
      lane[h][3] = __fmaf_rn(low.w, key[3], lane[h][3]);
      lane[h][4] = __fmaf_rn(high.x, key[4], lane[h][4]);
      lane[h][5] = __fmaf_rn(high.y, key[5], lane[h][5]);
      lane[h][6] = __fmaf_rn(high.z, key[6], lane[h][6]);
      lane[h][7] = __fmaf_rn(high.w, key[7], lane[h][7]);
    }
  }
}

// One thread a position; Heads heads of q that share their keys at once.
template <unsigned Heads>
__global__ void __launch_bounds__(256) scores_kernel(attention_arguments what) {
  begin_kernel();
  extern __shared__ __align__(16) float q[];  // [Heads, head_dim]
  __shared__ float largest[Heads][8];
  const std::uint32_t c = blockIdx.x, row = blockIdx.z, head_dim = what.kv.head_dim;
  const window_row of = what.rows[row];
  const std::uint32_t n_positions = of.position + 1;
  if (c * chunk >= n_positions) return;
  const std::uint32_t first_head = blockIdx.y * Heads;
  const std::uint32_t kv_head = first_head / (what.n_heads / what.kv.n_kv_heads);
  const float* from = what.q + (std::size_t{row} * what.n_heads + first_head) * head_dim;
  for (std::uint32_t i = threadIdx.x; i < Heads * head_dim; i += blockDim.x) q[i] = from[i];
  __syncthreads();

  const std::uint32_t t = c * chunk + threadIdx.x;
  const bool exists = t < n_positions;
  float score[Heads];
#pragma unroll
  for (unsigned h = 0; h < Heads; ++h) score[h] = -INFINITY;
  if (exists) {
    const auto* k = reinterpret_cast<const uint4*>(what.kv.k + what.kv.at(of.session, kv_head, t));
    float lane[Heads][8] = {};
    dot_lanes<Heads>(q, k, head_dim, lane);
#pragma unroll
    for (unsigned h = 0; h < Heads; ++h) {
      score[h] = __fmul_rn(lane_sum(lane[h]), what.scale);
      what.scores[(std::size_t{row} * what.n_heads + first_head + h) * what.context_stride + t] = score[h];
    }
  }
#pragma unroll
  for (unsigned h = 0; h < Heads; ++h) {
    const float of_warp = warp_max(score[h]);
    if (threadIdx.x % 32 == 0) largest[h][threadIdx.x / 32] = of_warp;
  }
  __syncthreads();
  if (threadIdx.x < Heads) {
    float of_all = largest[threadIdx.x][0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) of_all = fmaxf(of_all, largest[threadIdx.x][warp]);
    what.chunk_max[(std::size_t{row} * what.n_heads + first_head + threadIdx.x) * (what.context_stride / chunk) + c] = of_all;
  }
}

// By the first eight threads of a warp, l being a thread's number: the sum of a chunk's powers, of which those beyond the last position are +0.
__device__ inline float sum_of_powers(const float* p, unsigned l) {
  float lane = 0.0f;
#pragma unroll 8
  for (std::uint32_t t = l; t < chunk; t += 8) lane = __fadd_rn(lane, p[t]);
  return lane_sum(lane, 0xffu);
}

// Sum over t < n of p[t] * v[t * stride], t ascending from +0.
__device__ inline float mix(const float* p, const std::uint16_t* v, std::uint32_t n, std::uint32_t stride) {
  float mixed = 0.0f;
  std::uint32_t t = 0;
  for (; t + mix_unroll <= n; t += mix_unroll) {
    float value[mix_unroll];
#pragma unroll
    for (std::uint32_t u = 0; u < mix_unroll; ++u) value[u] = half_as_float(v[std::size_t{t + u} * stride]);
#pragma unroll
    for (std::uint32_t u = 0; u < mix_unroll; ++u) mixed = __fmaf_rn(p[t + u], value[u], mixed);
  }
  for (; t < n; ++t) mixed = __fmaf_rn(p[t], half_as_float(v[std::size_t{t} * stride]), mixed);
  return mixed;
}

// A thread an element of the head.
__global__ void mix_kernel(attention_arguments what) {
  begin_kernel();
  __shared__ float p[chunk];
  __shared__ bool last;
  const std::uint32_t c = blockIdx.x, head = blockIdx.y, row = blockIdx.z, head_dim = what.kv.head_dim, i = threadIdx.x;
  const window_row of = what.rows[row];
  const std::uint32_t n_positions = of.position + 1, n_chunks = (n_positions + chunk - 1) / chunk;
  if (c >= n_chunks) return;
  const std::size_t this_head = std::size_t{row} * what.n_heads + head;
  const std::size_t this_chunk = this_head * (what.context_stride / chunk);
  float largest = what.chunk_max[this_chunk];
  for (std::uint32_t other = 1; other < n_chunks; ++other) largest = fmaxf(largest, what.chunk_max[this_chunk + other]);

  const std::uint32_t first = c * chunk, n = min(chunk, n_positions - first);
  for (std::uint32_t t = i; t < chunk; t += blockDim.x) {
    p[t] = t < n ? exact_exp(__fsub_rn(what.scores[this_head * what.context_stride + first + t], largest)) : 0.0f;
  }
  __syncthreads();
  // Beyond the last position p is +0, and a sum of powers, which are positive, does not change by adding it.
  if (i < 8) {
    const float sum = sum_of_powers(p, i);
    if (i == 0) what.chunk_sum[this_chunk + c] = sum;
  }
  const std::uint16_t* v = what.kv.v + what.kv.at(of.session, head / (what.n_heads / what.kv.n_kv_heads), first) + i;
  const float mixed = mix(p, v, n, head_dim);
  const std::size_t at = this_head * head_dim + i;
  if (n_chunks == 1) {
    __syncthreads();
    const float out = __fdiv_rn(mixed, what.chunk_sum[this_chunk]);
    what.out.x[at] = out;
    quantise_twice(out, at / 32, what.out);
    return;
  }
  what.chunk_out[(this_chunk + c) * head_dim + i] = mixed;

  __threadfence();
  __syncthreads();
  if (i == 0) last = atomicAdd(&what.arrivals[this_head], 1u) == n_chunks - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (i == 0) what.arrivals[this_head] = 0;
  const volatile float* sums = what.chunk_sum + this_chunk;
  const volatile float* outs = what.chunk_out + this_chunk * head_dim + i;
  float total = sums[0], out = outs[0];
  for (std::uint32_t other = 1; other < n_chunks; ++other) {
    total = __fadd_rn(total, sums[other]);
    out = __fadd_rn(out, outs[std::size_t{other} * head_dim]);
  }
  out = __fdiv_rn(out, total);
  what.out.x[at] = out;
  quantise_twice(out, at / 32, what.out);
}

constexpr unsigned short_threads = attention_chunk;  // a position each

__global__ void __launch_bounds__(short_threads) turn_and_attend_kernel(turn_arguments turn, attention_arguments what) {
  begin_kernel();
  extern __shared__ __align__(16) float memory[];
  __shared__ float p[chunk], largest[short_threads / 32], inverse[2], total;
  const std::uint32_t n = what.kv.head_dim, half = n / 2, head = blockIdx.x, row = blockIdx.y, group = what.n_heads / what.kv.n_kv_heads;
  const std::uint32_t kv_head = head / group, i = threadIdx.x, row_floats = 8 * lane_stride(n);
  float* const raw[2] = {memory, memory + row_floats};  // query and key as projected
  float* const q = memory + 2 * row_floats;             // [head_dim], turned
  auto* const k = reinterpret_cast<std::uint16_t*>(q + n);  // [head_dim], turned, as halves
  const window_row of = what.rows[row];
  const std::uint32_t position = of.position, n_positions = position + 1;
  const float* from[2] = {turn.q + (std::size_t{row} * what.n_heads + head) * n, turn.k + (std::size_t{row} * what.kv.n_kv_heads + kv_head) * n};
  const float* norm[2] = {turn.q_norm, turn.k_norm};
  for (std::uint32_t j = i; j < 2 * n; j += short_threads) raw[j / n][place_of(j % n, n)] = from[j / n][j % n];
  __syncthreads();
#pragma unroll
  for (unsigned which = 0; which < 2; ++which) {  // by two warps at once
    if (norm[which] == nullptr || i / 32 != which || i % 32 >= 8) continue;
    const float found = inverse_rms(raw[which], n, turn.eps, i % 32);
    if (i % 32 == 0) inverse[which] = found;
  }
  __syncthreads();
  const float* cos = turn.cos + std::size_t{row} * half;
  const float* sin = turn.sin + std::size_t{row} * half;
  const std::size_t stored = what.kv.at(of.session, kv_head, position);
  for (std::uint32_t j = i; j < 2 * n; j += short_threads) {
    const std::uint32_t which = j / n, at = j % n, pair = at < half ? at : at - half;
    const auto normed = [&](std::uint32_t element) {
      const float value = raw[which][place_of(element, n)];
      return norm[which] == nullptr ? value : __fmul_rn(__fmul_rn(value, inverse[which]), norm[which][element]);
    };
    const float x0 = normed(pair), x1 = normed(pair + half);
    const float turned = at < half ? __fmaf_rn(x0, cos[pair], -__fmul_rn(x1, sin[pair])) : __fmaf_rn(x1, cos[pair], __fmul_rn(x0, sin[pair]));
    if (which == 0) {
      q[at] = turned;
    } else {
      k[at] = float_as_half(turned);
      if (head % group == 0) what.kv.k[stored + at] = k[at];
    }
  }
  const std::uint16_t newest = i < n ? float_as_half(turn.v[(std::size_t{row} * what.kv.n_kv_heads + kv_head) * n + i]) : std::uint16_t{0};
  if (i < n && head % group == 0) what.kv.v[stored + i] = newest;
  __syncthreads();

  float score = -INFINITY;
  if (i < n_positions) {
    const auto* key = reinterpret_cast<const uint4*>(i == position ? k : what.kv.k + what.kv.at(of.session, kv_head, i));
    float lane[1][8] = {};
    dot_lanes<1>(q, key, n, lane);
    score = __fmul_rn(lane_sum(lane[0]), what.scale);
  }
  const float of_warp = warp_max(score);
  if (i % 32 == 0) largest[i / 32] = of_warp;
  __syncthreads();
  float of_all = largest[0];
#pragma unroll
  for (unsigned warp = 1; warp < short_threads / 32; ++warp) of_all = fmaxf(of_all, largest[warp]);
  p[i] = i < n_positions ? exact_exp(__fsub_rn(score, of_all)) : 0.0f;
  __syncthreads();
  if (i >= short_threads - 32 && i % 32 < 8) {  // by the last warp, while the first ones mix
    const float sum = sum_of_powers(p, i % 32);
    if (i % 32 == 0) total = sum;
  }
  float mixed = 0.0f;
  if (i < n) {
    const std::uint16_t* v = what.kv.v + what.kv.at(of.session, kv_head, 0) + i;
    mixed = mix(p, v, position, n);
    mixed = __fmaf_rn(p[position], half_as_float(newest), mixed);
  }
  __syncthreads();
  if (i >= n) return;  // whole warps
  const float out = __fdiv_rn(mixed, total);
  const std::size_t at = (std::size_t{row} * what.n_heads + head) * n + i;
  what.out.x[at] = out;
  quantise_twice(out, at / 32, what.out);
}

}  // namespace

void turn_and_attend(const turn_arguments& turn, const attention_arguments& what, cudaStream_t stream) {
  const std::uint32_t head_dim = what.kv.head_dim;
  EBB_ASSERT(head_dim % 32 == 0);
  EBB_ASSERT(head_dim <= short_threads);
  const std::size_t shared_bytes = (16 * lane_stride(head_dim) + head_dim) * sizeof(float) + head_dim * sizeof(std::uint16_t);
  launch_kernel(turn_and_attend_kernel, dim3(what.n_heads, what.n_rows), short_threads, shared_bytes, stream, turn, what);
}

void attention(const attention_arguments& what, cudaStream_t stream) {
  const std::uint32_t head_dim = what.kv.head_dim, group = what.n_heads / what.kv.n_kv_heads;
  EBB_ASSERT(head_dim % 32 == 0);
  EBB_ASSERT(head_dim <= 256);
  const auto scores = [&]<unsigned Heads>() {
    const dim3 grid(what.chunks, what.n_heads / Heads, what.n_rows);
    launch_kernel(scores_kernel<Heads>, grid, chunk, Heads * head_dim * sizeof(float), stream, what);
  };
  if (group % 8 == 0) scores.template operator()<8>();
  else if (group % 4 == 0) scores.template operator()<4>();
  else if (group % 2 == 0) scores.template operator()<2>();
  else scores.template operator()<1>();
  launch_kernel(mix_kernel, dim3(what.chunks, what.n_heads, what.n_rows), head_dim, 0, stream, what);
}

}  // namespace ebb::kernels::cuda
