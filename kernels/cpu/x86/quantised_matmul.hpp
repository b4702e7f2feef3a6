// kernels/cpu/x86/quantised_matmul.hpp: the loops of a product with quantised weights.
//
// Work:     weight rows in groups that stay in the L2 cache while all activation rows meet them; activation rows in eights (then fours,
//           then one by one), packed into tiles once a group, a tile for each part (quantised, residual); columns in panels, so that the packed
//           tiles fit the stack and the L1 cache.
// Numerics: the eight lanes of a (weight row, activation row) live in `lanes` from one panel to the next, so neither grouping shows
//           in a result. A last tile of fewer than eight blocks is filled up with zeros, which adds 0 to lanes: they are never -0,
//           since a product of an integer and d * x.d is a whole number of 2^-149 and so never rounds to -0 from below.
#pragma once
#include "kernels/cpu/x86/packed_activations.hpp"
#include "kernels/matmul.hpp"
#include <cstring>

namespace ebb::kernels::cpu {
namespace {

constexpr std::size_t rows_in_group = 64;
constexpr std::size_t x_rows_in_group = 8;
constexpr std::size_t tiles_in_panel = 64;  // of all activation rows of a group and their parts: 24 KiB

// Some rows of the weight and some of the activations, and the lanes of their products.
struct row_group {
  const std::byte* w;  // first row
  std::size_t w_row_bytes;
  std::size_t n_rows;  // <= rows_in_group
  std::size_t x_row[x_rows_in_group];
  std::size_t n_x_rows;  // <= x_rows_in_group
  std::size_t n_parts;   // 1, or 2 with residuals
  __m256 lanes[x_rows_in_group][rows_in_group];
  packed_tile x[tiles_in_panel];  // [tile][activation row][part]
};

// The tile of which only `n_blocks` blocks exist: nothing beyond them is read.
template <class Tile>
Tile partial_tile(const std::byte* at, std::size_t n_blocks) {
  std::byte padded[Tile::bytes] = {};
  std::memcpy(padded, at, n_blocks * (Tile::bytes / tile_blocks));
  return Tile(padded);
}

// Some tiles of every row: a panel.
struct panel {
  std::size_t first_block;
  std::size_t n_tiles;
  std::size_t last_blocks;  // of the last tile, <= tile_blocks
};

// The lanes after one tile of weights has met tile `t` of every activation row, part after part.
template <class Tile, std::size_t n_x_rows>
void add_tile(const Tile& w, const row_group& group, std::size_t n_parts, std::size_t t, __m256* lanes) {
  const packed_tile* x = group.x + t * n_x_rows * n_parts;
  for (std::size_t i = 0; i < n_x_rows; ++i) {
    for (std::size_t part = 0; part < n_parts; ++part) lanes[i] = w.add(*x++, lanes[i]);
  }
}

// Adds a packed panel's products to the group's lanes. `n_parts` is a constant where it is worth a copy of this function.
template <class Tile, std::size_t n_x_rows, class Parts>
void add_panel(row_group& group, Parts n_parts, const panel& columns) {
  const std::size_t n_full = columns.last_blocks == tile_blocks ? columns.n_tiles : columns.n_tiles - 1;
  const std::byte* of_row = group.w + columns.first_block / tile_blocks * Tile::bytes;
  for (std::size_t r = 0; r < group.n_rows; ++r, of_row += group.w_row_bytes) {
    __m256 lanes[n_x_rows];
    for (std::size_t i = 0; i < n_x_rows; ++i) lanes[i] = columns.first_block == 0 ? _mm256_setzero_ps() : group.lanes[i][r];
    const std::byte* at = of_row;
    for (std::size_t t = 0; t < n_full; ++t, at += Tile::bytes) add_tile<Tile, n_x_rows>(Tile(at), group, n_parts, t, lanes);
    if (n_full < columns.n_tiles) add_tile<Tile, n_x_rows>(partial_tile<Tile>(at, columns.last_blocks), group, n_parts, n_full, lanes);
    for (std::size_t i = 0; i < n_x_rows; ++i) group.lanes[i][r] = lanes[i];
  }
}

// A single activation row is decoding: what its loop costs shows in every token.
template <class Tile>
void add_panel(row_group& group, const panel& columns) {
  struct one { constexpr operator std::size_t() const { return 1; } };
  struct two { constexpr operator std::size_t() const { return 2; } };
  switch (group.n_x_rows) {
    case 1: return group.n_parts == 1 ? add_panel<Tile, 1>(group, one{}, columns) : add_panel<Tile, 1>(group, two{}, columns);
    case 4: return add_panel<Tile, 4>(group, group.n_parts, columns);
    default: return add_panel<Tile, x_rows_in_group>(group, group.n_parts, columns);
  }
}

template <class Tile>
void add_all_panels(const activations& x, row_group& group) {
  const std::size_t n_blocks = x.n_cols / activation_block;
  const std::size_t panel_blocks = tiles_in_panel / (group.n_x_rows * group.n_parts) * tile_blocks;
  for (std::size_t first = 0; first < n_blocks; first += panel_blocks) {
    const std::size_t end = first + panel_blocks < n_blocks ? first + panel_blocks : n_blocks;
    panel columns{first, 0, 0};
    for (std::size_t b = first; b < end; b += tile_blocks, ++columns.n_tiles) {
      columns.last_blocks = end - b < tile_blocks ? end - b : tile_blocks;
      packed_tile* tile = group.x + columns.n_tiles * group.n_x_rows * group.n_parts;
      for (std::size_t i = 0; i < group.n_x_rows; ++i) {
        pack<Tile>(x.part[0], x.n_cols, group.x_row[i], b, columns.last_blocks, *tile++);
        if (group.n_parts == 2) pack<Tile>(x.part[1], x.n_cols, group.x_row[i], b, columns.last_blocks, *tile++);
      }
    }
    add_panel<Tile>(group, columns);
  }
}

// Turns the lanes of one activation row into its outputs, eight at a time.
template <class Tile>
void finish(const __m256* lanes, std::size_t n_rows, float* y) {
  alignas(32) std::int32_t lane_of_block[tile_blocks];
  for (std::int32_t lane = 0; lane < static_cast<std::int32_t>(tile_blocks); ++lane) lane_of_block[Tile::order[lane]] = lane;
  const __m256i natural = load(lane_of_block);
  for (std::size_t r = 0; r < n_rows; r += 8) {
    const std::size_t count = n_rows - r < 8 ? n_rows - r : 8;
    __m256 of_row[8];
    for (std::size_t i = 0; i < 8; ++i) of_row[i] = i < count ? _mm256_permutevar8x32_ps(lanes[r + i], natural) : _mm256_setzero_ps();
    store_first(y + r, count, lane_sums(of_row));
  }
}

// How many of the rows that are left are taken together.
inline std::size_t x_rows_together(std::size_t left) { return left >= 8 ? 8 : left >= 4 ? 4 : 1; }

template <class Tile>
void quantised_matmul(const matmul_job& job) {
  row_group group;
  group.w_row_bytes = bytes_of(job.w.type, job.w.n_cols);
  group.n_parts = job.x.n_parts();
  for (std::size_t r = job.row_begin; r < job.row_end; r += group.n_rows) {
    group.w = job.w.data + r * group.w_row_bytes;
    group.n_rows = job.row_end - r < rows_in_group ? job.row_end - r : rows_in_group;
    for (std::size_t i = 0; i < job.n; i += group.n_x_rows) {
      group.n_x_rows = x_rows_together(job.n - i);
      for (std::size_t k = 0; k < group.n_x_rows; ++k) group.x_row[k] = job.x_row != nullptr ? job.x_row[i + k] : i + k;
      add_all_panels<Tile>(job.x, group);
      for (std::size_t k = 0; k < group.n_x_rows; ++k) {
        const std::size_t y_row = job.y_row != nullptr ? job.y_row[i + k] : i + k;
        finish<Tile>(group.lanes[k], group.n_rows, job.y + y_row * job.y_stride + r);
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels::cpu
