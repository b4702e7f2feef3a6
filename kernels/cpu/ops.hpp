// kernels/cpu/ops.hpp: the CPU's implementations of the contracts, one table an instruction set, all giving the same bits.
#pragma once
#include "config/result.hpp"
#include "kernels/activations.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include <string_view>
#include <vector>

namespace ebb::kernels::cpu {

enum class isa : std::uint8_t { scalar, avx2, avx512 };

struct ops {
  isa which;
  matmul_fn matmul;
  quantize_fn quantize;
  residual_fn residual;
  rms_norm_fn rms_norm;
  rope_fn rope;
  attention_fn attention;
  swiglu_fn swiglu;
  add_fn add;
  combine_fn combine;
  to_half_fn to_half;
};

std::string_view to_string(isa which) noexcept;  // "scalar", "avx2", "avx512": also the words of EBB_ISA

// Those this processor and this build can run, slowest first; never empty.
std::vector<isa> available();

// Pre: available (asserts).
const ops& ops_for(isa which) noexcept;

// The fastest available one, or the one `forced` (the value of EBB_ISA; empty = not set) names.
// Errors: bad_value (no such word), refused (this processor lacks it; names those it has).
result<isa> choose(std::string_view forced);

}  // namespace ebb::kernels::cpu
