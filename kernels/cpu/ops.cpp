#include "kernels/cpu/ops.hpp"
#include "config/assert.hpp"
#include "kernels/cpu/implementations.hpp"
#include <algorithm>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ebb::kernels::cpu {
namespace {

constexpr isa every_isa[] = {isa::scalar, isa::avx2, isa::avx512};  // slowest first

#if defined(__x86_64__)
// Half conversions: CPUID leaf 1, bit 29 of ecx. Not every compiler's __builtin_cpu_supports knows the name.
bool has_f16c() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 29 & 1) != 0;
}
#endif

bool runs_here(isa which) noexcept {
  if (which == isa::scalar) return true;
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (which == isa::avx2) return has_avx2;
  if (which == isa::avx512) {
    return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  }
#endif
  return false;
}

constexpr ops scalar_ops{isa::scalar,  scalar::matmul,    scalar::quantize, scalar::residual, scalar::rms_norm, scalar::rope,
                         scalar::attention, scalar::swiglu, scalar::add,   scalar::combine,  scalar::to_half};
#if defined(__x86_64__)
constexpr ops avx2_ops{isa::avx2,  avx2::matmul,    avx2::quantize, avx2::residual, avx2::rms_norm, avx2::rope,
                       avx2::attention, avx2::swiglu, avx2::add,   avx2::combine,  avx2::to_half};
constexpr ops avx512_ops = [] {
  ops made = avx2_ops;
  made.which = isa::avx512;
  made.matmul = avx512::matmul;
  return made;
}();
#endif

std::string names_of(const std::vector<isa>& sets) {
  std::string names;
  for (const isa which : sets) names += (names.empty() ? "" : ", ") + std::string(to_string(which));
  return names;
}

}  // namespace

std::string_view to_string(isa which) noexcept {
  switch (which) {
    case isa::scalar: return "scalar";
    case isa::avx2: return "avx2";
    case isa::avx512: return "avx512";
  }
  return "unknown";
}

std::vector<isa> available() {
  std::vector<isa> found;
  std::copy_if(std::begin(every_isa), std::end(every_isa), std::back_inserter(found), runs_here);
  return found;
}

const ops& ops_for(isa which) noexcept {
  EBB_ASSERT(runs_here(which));
#if defined(__x86_64__)
  if (which == isa::avx2) return avx2_ops;
  if (which == isa::avx512) return avx512_ops;
#endif
  return scalar_ops;
}

result<isa> choose(std::string_view forced) {
  const std::vector<isa> runnable = available();
  if (forced.empty()) return runnable.back();
  for (const isa which : every_isa) {
    if (to_string(which) != forced) continue;
    if (runs_here(which)) return which;
    return fail(errc::refused, "EBB_ISA asks for " + std::string(forced) + ", which this processor lacks; it has " + names_of(runnable));
  }
  return fail(errc::bad_value, "EBB_ISA is \"" + std::string(forced) + "\"; it must be scalar, avx2 or avx512, or not be set");
}

}  // namespace ebb::kernels::cpu
