// kernels/miss.hpp: an expert that is in no slot and that the CPU is to compute for one row.
#pragma once
#include <cstdint>

namespace ebb::kernels {

struct miss {
  std::uint32_t row;     // of the activations
  std::uint32_t expert;  // of the layer
};

}  // namespace ebb::kernels
