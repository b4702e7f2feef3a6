// tests/gpu/rehearsal.hpp: figures and tests of the engine are rehearsed on a machine without a GPU before one is at hand.
#pragma once
#include <cstdlib>

namespace ebb::test {

// EBB_REHEARSE_ON_HOST=1: host cards stand in for GPUs. What is printed then says nothing about any.
inline bool rehearses_on_host() { return std::getenv("EBB_REHEARSE_ON_HOST") != nullptr; }

}  // namespace ebb::test
