// tests/gpu/session.hpp: what the main of every test program for GPUs does.
#pragma once

namespace ebb::test {

// Runs the tests that the arguments choose. Without a GPU they are skipped, visibly: exit code 77, which ctest shows as "Skipped", and the
// reason.
int run_tests_on_gpu(int argc, char** argv);

}  // namespace ebb::test
