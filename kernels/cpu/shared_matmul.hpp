// kernels/cpu/shared_matmul.hpp: products whose rows the threads of a pool share, as one region.
#pragma once
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/worker_pool.hpp"
#include <span>

namespace ebb::kernels::cpu {

// Computes every job, from row 0 of its weight: their rows are laid end to end and shared out. Pre: row_begin is 0 in each.
void multiply(const ops& by, worker_pool& pool, std::span<const matmul_job> jobs);

}  // namespace ebb::kernels::cpu
