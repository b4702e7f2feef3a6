// tests/gpu/engine/neighbour.hpp: another program on the same GPU: it takes memory, computes in it, and holds it until it is told to end.
#pragma once
#include <cstdint>

namespace ebb::test {

inline constexpr const char* neighbour_argument = "--neighbour";  // and how many MiB, and of which GPU
inline constexpr int neighbour_out_of_memory = 3;                 // its exit code then; 4: anything else went wrong

// Waits for a line on its input; then takes a context and `mib` MiB of a GPU, fills them, adds one half of each MiB to the other, reads the
// sums back and compares. Prints "ok" and holds all that until its input ends, then compares once more. Gives the exit code; what failed is on
// stderr.
int be_neighbour(std::uint64_t mib, int gpu);

}  // namespace ebb::test
