// Tests that need a GPU. Without one they are skipped, visibly: exit code 77, which ctest shows as "Skipped", with the reason.
#define CATCH_CONFIG_RUNNER
#include "kernels/cuda/driver.hpp"
#include <catch2/catch.hpp>
#include <iostream>

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  if (const auto driver = ebb::kernels::cuda::driver::load(); !driver) {
    std::cout << "skipped: " << driver.error().text << '\n';
    return skipped;
  }
  return Catch::Session().run(argc, argv);
}
