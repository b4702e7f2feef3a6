// kernels/cpu/x86/packed_activations.hpp: 256 quantised activations, turned so that a product needs no horizontal sums.
//
// A *tile* is eight blocks of 32. The blocks form two groups of four, in an order that suits how the weight's format packs its
// blocks. Register (m, group) of a tile holds, for each of its four blocks, four neighbouring values:
//   dword l < 4:  values 4m .. 4m + 3 of block order[4 group + l]         dword l >= 4: values 16 + 4m .. 16 + 4m + 3 of that block
// so a lane-wise sum over m is the sum over 16 values of one block, and the two halves of a register give its 32.
// The eight sums of a tile then stand in the order of `order`, one a lane, and so do d and sum here.
#pragma once
#include "kernels/activations.hpp"
#include "kernels/cpu/x86/vectors.hpp"

namespace ebb::kernels::cpu {
namespace {

constexpr std::size_t tile_blocks = 8;
constexpr std::size_t tile_values = tile_blocks * activation_block;

// The blocks of group 0, then those of group 1.
using block_order = std::int32_t[tile_blocks];

struct alignas(64) packed_tile {
  std::int8_t q[4][2][32];        // [m][group]
  std::int8_t correction[2][32];  // [group]: what makes up for weights stored with an offset, as the integer sums want it
  float d[tile_blocks];           // in the order of the lanes; 0 where there is no block
  std::int32_t sum[tile_blocks];  // likewise
};

inline __m256i load(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }

inline __m256i& as_vector(void* at) { return *static_cast<__m256i*>(at); }

// Packs group `group` of the tile whose blocks begin at `q`.
template <class Tile>
void pack_group(const std::int8_t* q, std::size_t n_blocks, std::size_t group, packed_tile& tile) {
  __m256i r[4];
  for (std::size_t j = 0; j < 4; ++j) {
    const auto block = static_cast<std::size_t>(Tile::order[4 * group + j]);
    r[j] = block < n_blocks ? load(q + block * activation_block) : _mm256_setzero_si256();
  }
  transpose(r[0], r[1], r[2], r[3]);
  __m256i pair_sums = _mm256_setzero_si256();
  for (int m = 0; m < 4; ++m) {
    as_vector(tile.q[m][group]) = r[m];
    pair_sums = _mm256_add_epi16(pair_sums, _mm256_maddubs_epi16(_mm256_set1_epi8(1), r[m]));
  }
  as_vector(tile.correction[group]) = Tile::sums::template correction<Tile::offset>(pair_sums);
}

// Packs the blocks [first, first + n_blocks) of row `x_row` of one part for weights of type `Tile`; n_blocks <= 8, the missing ones become zeros.
template <class Tile>
void pack(const quantised_rows& x, std::size_t n_cols, std::size_t x_row, std::size_t first, std::size_t n_blocks, packed_tile& tile) {
  const std::size_t at = x_row * (n_cols / activation_block) + first;
  pack_group<Tile>(x.q + at * activation_block, n_blocks, 0, tile);
  pack_group<Tile>(x.q + at * activation_block, n_blocks, 1, tile);
  const __m256i order = load(Tile::order), present = first_lanes(n_blocks);
  _mm256_store_ps(tile.d, _mm256_permutevar8x32_ps(_mm256_maskload_ps(x.d + at, present), order));
  as_vector(tile.sum) = _mm256_permutevar8x32_epi32(_mm256_maskload_epi32(x.sum + at, present), order);
}

}  // namespace
}  // namespace ebb::kernels::cpu
