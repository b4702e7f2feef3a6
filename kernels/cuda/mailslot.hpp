// kernels/cuda/mailslot.hpp: the host memory by which a window on a GPU hands misses to the CPU, and gets their results back.
//
// One mailslot a stage, in pinned memory that both sides see. A layer's message is written whole before `rung` takes its number; the answer is
// written whole before `answered` takes the same number. A number is never used twice in a row, so equality is all that is compared:
//
//   GPU   writes message, activations   -> fence -> rung = number          waits until answered == number, then reads results
//   CPU   waits until rung is new       -> reads message -> results -> answered = number
//
// Both waits end: after limits::doorbell_timeout the GPU gives up, says so in `gave_up`, and its window runs to its end with results that nobody uses.
#pragma once
#include "config/limits.hpp"
#include "kernels/miss.hpp"

namespace ebb::kernels::cuda {

inline constexpr std::uint32_t doorbell_rows_max = limits::miss_rows_max;  // rows of a window that rings; others are driven by the host
inline constexpr std::uint32_t doorbell_misses_max = 128;  // rows * top_k

struct mailslot {
  // From the GPU.
  std::uint32_t rung;
  std::uint32_t layer;     // of the stage, from 0
  std::uint32_t n_misses;
  std::uint32_t gave_up;
  // From the CPU, on a line of its own.
  alignas(128) std::uint32_t answered;
  alignas(128) miss misses[doorbell_misses_max];
};

}  // namespace ebb::kernels::cuda
