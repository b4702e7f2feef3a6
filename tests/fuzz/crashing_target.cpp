// tests/fuzz/crashing_target.cpp: a fuzz target with a bug that only a mutation reaches, to see that replay_main.cpp reports it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 1 && data[0] == 'C' && data[1] == 0xff) std::abort();
  return 0;
}
