// Runs the tests, or is the other process that some of them need.
#include "tests/gpu/engine/neighbour.hpp"
#include "tests/gpu/session.hpp"
#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == ebb::test::neighbour_argument)
    return ebb::test::be_neighbour(std::strtoull(argv[2], nullptr, 10), std::atoi(argv[3]));
  return ebb::test::run_tests_on_gpu(argc, argv);
}
