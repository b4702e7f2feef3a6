// kernels/format.hpp: the tensor types of GGUF, how their blocks lie in memory, and which of them have kernels.
//
// A row of a tensor is a whole number of blocks; a block holds `values_per_block` values in `bytes_per_block` bytes.
// The layouts are those of the GGUF format; all fields are little-endian.
#pragma once
#include "config/result.hpp"
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ebb::kernels {

// Numbered as GGUF numbers them, so a value read from a file is a format once format_known() says so.
enum class format : std::uint32_t {
  f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q5_0 = 6, q5_1 = 7, q8_0 = 8, q8_1 = 9,
  q2_k = 10, q3_k = 11, q4_k = 12, q5_k = 13, q6_k = 14, q8_k = 15,
  iq2_xxs = 16, iq2_xs = 17, iq3_xxs = 18, iq1_s = 19, iq4_nl = 20, iq3_s = 21, iq2_s = 22, iq4_xs = 23,
  i8 = 24, i16 = 25, i32 = 26, i64 = 27, f64 = 28, iq1_m = 29, bf16 = 30, tq1_0 = 34, tq2_0 = 35, mxfp4 = 39,
};

struct format_info {
  format type;
  std::string_view name;            // as GGUF tools print it: "Q4_K"
  std::uint32_t values_per_block;   // > 0
  std::uint32_t bytes_per_block;    // > 0
  bool has_kernels;                 // matmul and dequantize exist for it
};

// Whether `number`, as read from a file, is a format of the table.
bool format_known(std::uint32_t number) noexcept;

// Pre: the format is known (asserts).
const format_info& info(format type) noexcept;

// Bytes of `n_values` values. Pre: a whole number of blocks (asserts).
std::size_t bytes_of(format type, std::size_t n_values) noexcept;

// --- blocks of the formats that have kernels. x is the value, d and m are halves (kernels/half.hpp).
struct block_q8_0 { std::uint16_t d; std::int8_t q[32]; };                                  // x = d * q
struct block_q4_0 { std::uint16_t d; std::uint8_t q[16]; };                                 // x = d * (nibble - 8); low nibbles first
struct block_q4_1 { std::uint16_t d, m; std::uint8_t q[16]; };                              // x = d * nibble + m
struct block_q5_0 { std::uint16_t d; std::uint8_t high[4]; std::uint8_t q[16]; };           // x = d * (5 bits - 16)
struct block_q5_1 { std::uint16_t d, m; std::uint8_t high[4]; std::uint8_t q[16]; };        // x = d * 5 bits + m
struct block_q4_k { std::uint16_t d, dmin; std::uint8_t scales[12]; std::uint8_t q[128]; }; // x = d * scale * nibble - dmin * min
struct block_q5_k { std::uint16_t d, dmin; std::uint8_t scales[12]; std::uint8_t high[32]; std::uint8_t q[128]; };
struct block_q6_k { std::uint8_t low[128]; std::uint8_t high[64]; std::int8_t scales[16]; std::uint16_t d; };  // x = d * scale * (6 bits - 32)

static_assert(sizeof(block_q8_0) == 34);
static_assert(sizeof(block_q4_0) == 18);
static_assert(sizeof(block_q4_1) == 20);
static_assert(sizeof(block_q5_0) == 22);
static_assert(sizeof(block_q5_1) == 24);
static_assert(sizeof(block_q4_k) == 144);
static_assert(sizeof(block_q5_k) == 176);
static_assert(sizeof(block_q6_k) == 210);

}  // namespace ebb::kernels
