#define CATCH_CONFIG_RUNNER
#include "tests/gpu/session.hpp"
#include "kernels/cuda/driver.hpp"
#include "tests/gpu/rehearsal.hpp"
#include <catch2/catch.hpp>
#include <iostream>

namespace ebb::test {

int run_tests_on_gpu(int argc, char** argv) {
  constexpr int skipped = 77;
  if (const auto driver = kernels::cuda::driver::load(); !driver && !rehearses_on_host()) {
    std::cout << "skipped: " << driver.error().text << '\n';
    return skipped;
  }
  return Catch::Session().run(argc, argv);
}

}  // namespace ebb::test
