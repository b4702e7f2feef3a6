// kernels/cpu/implementations.hpp: the functions behind the tables of ops.hpp, one namespace an instruction set.
//
// scalar is the definition. avx2 and avx512 exist in x86-64 builds only, and only ops.cpp may call them, after it has looked at the
// processor. Their files are compiled for their instruction set, so they keep everything else in anonymous namespaces and call no
// inline function of the standard library: the linker keeps one copy of such a function, and must not keep theirs.
#pragma once
#include "kernels/cpu/ops.hpp"
#include <type_traits>

namespace ebb::kernels::cpu {

// Declares what the contract's pointer points to, so a contract and its implementations cannot drift apart.
template <class Contract>
using function = std::remove_pointer_t<Contract>;

namespace scalar {
function<matmul_fn> matmul;
function<quantize_fn> quantize;
function<residual_fn> residual;
function<rms_norm_fn> rms_norm;
function<rope_fn> rope;
function<attention_fn> attention;
function<swiglu_fn> swiglu;
function<add_fn> add;
function<combine_fn> combine;
function<to_half_fn> to_half;
}  // namespace scalar

#if defined(__x86_64__)
namespace avx2 {
function<matmul_fn> matmul;
function<quantize_fn> quantize;
function<residual_fn> residual;
function<rms_norm_fn> rms_norm;
function<rope_fn> rope;
function<attention_fn> attention;
function<swiglu_fn> swiglu;
function<add_fn> add;
function<combine_fn> combine;
function<to_half_fn> to_half;
}  // namespace avx2

// Eight lanes fill a 256-bit register, so only the products gain from AVX-512 (VNNI); the rest is AVX2's.
namespace avx512 {
function<matmul_fn> matmul;
}
#endif

// Asserts what matmul.hpp asks of a job. Called by every implementation, once a job.
void check(const matmul_job& job) noexcept;

}  // namespace ebb::kernels::cpu
