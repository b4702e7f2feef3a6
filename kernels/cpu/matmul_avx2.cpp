#if defined(__x86_64__)
#include "kernels/cpu/implementations.hpp"
#include "kernels/cpu/x86/maddubs.hpp"
#include "kernels/cpu/x86/matmul.hpp"

namespace ebb::kernels::cpu::avx2 {

void matmul(const matmul_job& job) {
  check(job);
  matmul_by<maddubs>(job);
}

}  // namespace ebb::kernels::cpu::avx2
#endif
