#include "bus/crc32.hpp"
#include <array>
#include <cstddef>

namespace ebb::bus {
namespace {

constexpr std::uint32_t polynomial_reflected = 0xedb88320;
constexpr std::size_t stride = 8;  // bytes a step

using table = std::array<std::uint32_t, 256>;

// tables[n][b]: what byte b does to the sum when n more bytes follow it in its step.
constexpr std::array<table, stride> make_tables() {
  std::array<table, stride> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? polynomial_reflected : 0);
    tables[0][byte] = sum;
  }
  for (std::size_t following = 1; following < stride; ++following) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[following - 1][byte];
      tables[following][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr std::array<table, stride> tables = make_tables();

std::uint32_t byte_at(bytes_view from, std::size_t index) noexcept { return std::to_integer<std::uint32_t>(from[index]); }

// The sum so far covers the first four bytes of a step; the other four begin afresh.
std::uint32_t add_step(std::uint32_t sum, bytes_view step) noexcept {
  std::uint32_t added = 0;
  for (std::size_t index = 0; index < stride; ++index) {
    const std::uint32_t earlier = index < 4 ? (sum >> (8 * index)) & 0xff : 0;
    added ^= tables[stride - 1 - index][byte_at(step, index) ^ earlier];
  }
  return added;
}

}  // namespace

std::uint32_t crc32(bytes_view more, std::uint32_t so_far) noexcept {
  std::uint32_t sum = ~so_far;
  for (; more.size() >= stride; more = more.subspan(stride)) sum = add_step(sum, more.first(stride));
  for (std::size_t index = 0; index < more.size(); ++index) sum = (sum >> 8) ^ tables[0][(sum ^ byte_at(more, index)) & 0xff];
  return ~sum;
}

}  // namespace ebb::bus
