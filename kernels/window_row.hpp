// kernels/window_row.hpp: one position of one session, as a window's rows are told to every stage, on the CPU and on a GPU.
#pragma once
#include <cstdint>

namespace ebb::kernels {

struct window_row {
  std::uint32_t session;   // < stage_shape::n_sessions
  std::uint32_t position;  // < stage_shape::context
};
static_assert(sizeof(window_row) == 8);  // copied to a GPU as it is

}  // namespace ebb::kernels
