// kernels/cpu/x86/matmul.hpp: the product of each format, by the integer sums `Sums`.
#pragma once
#include "config/assert.hpp"
#include "kernels/cpu/x86/float_matmul.hpp"
#include "kernels/cpu/x86/k_quants.hpp"
#include "kernels/cpu/x86/quantised_matmul.hpp"
#include "kernels/cpu/x86/small_quants.hpp"

namespace ebb::kernels::cpu {
namespace {

template <class Sums>
void matmul_by(const matmul_job& job) {
  switch (job.w.type) {
    case format::f32: return float_matmul<f32_values>(job);
    case format::f16: return float_matmul<f16_values>(job);
    case format::bf16: return float_matmul<bf16_values>(job);
    case format::q8_0: return quantised_matmul<centred_tile<Sums, q8_0_layout>>(job);
    case format::q4_0: return quantised_matmul<centred_tile<Sums, q4_0_layout>>(job);
    case format::q4_1: return quantised_matmul<offset_tile<Sums, q4_1_layout>>(job);
    case format::q5_0: return quantised_matmul<centred_tile<Sums, q5_0_layout>>(job);
    case format::q5_1: return quantised_matmul<offset_tile<Sums, q5_1_layout>>(job);
    case format::q4_k: return quantised_matmul<q4_k_tile<Sums>>(job);
    case format::q5_k: return quantised_matmul<q5_k_tile<Sums>>(job);
    case format::q6_k: return quantised_matmul<q6_k_tile<Sums>>(job);
    default: assert_failed("a format with has_kernels has a case here", __FILE__, __LINE__);
  }
}

}  // namespace
}  // namespace ebb::kernels::cpu
