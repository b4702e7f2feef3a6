#if defined(__x86_64__)
#include "kernels/cpu/implementations.hpp"
#include "kernels/cpu/x86/dpbusd.hpp"
#include "kernels/cpu/x86/matmul.hpp"

namespace ebb::kernels::cpu::avx512 {

void matmul(const matmul_job& job) {
  check(job);
  matmul_by<dpbusd>(job);
}

}  // namespace ebb::kernels::cpu::avx512
#endif
