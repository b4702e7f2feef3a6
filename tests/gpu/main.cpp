#include "tests/gpu/session.hpp"

int main(int argc, char** argv) { return ebb::test::run_tests_on_gpu(argc, argv); }
