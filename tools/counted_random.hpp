// tools/counted_random.hpp: random words by place: any thread can draw those of any place, in any order, and gets the same.
//
// A place is a list of numbers (a seed, a tensor, a piece of it). They are mixed by the finaliser of splitmix64 into the state of a
// xoshiro256++ (Blackman, Vigna), which gives 8 bytes in about a nanosecond. Only integers, so every machine draws the same.
#pragma once
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace ebb::tools {

class counted_random {
 public:
  explicit counted_random(std::initializer_list<std::uint64_t> place) noexcept {
    std::uint64_t mixed = 0;
    for (const std::uint64_t number : place) mixed = mix(mixed + golden + number);
    for (std::uint64_t& word : state_) word = mix(mixed += golden);
  }

  std::uint64_t word() noexcept {
    const std::uint64_t drawn = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return drawn;
  }

  // Below `end` > 0, of 32 bits.
  std::uint32_t below(std::uint32_t end) noexcept { return static_cast<std::uint32_t>((word() >> 32) * end >> 32); }

  // Of mean 0 and deviation 1, evenly spread: from -sqrt(3) to sqrt(3).
  float even() noexcept {
    constexpr float sqrt_3 = 1.7320508f;
    return (static_cast<float>(word() >> 40) * 0x1p-23f - 1.0f) * sqrt_3;
  }

  // Of mean 0 and deviation 1, nearly normal: the sum of four even ones, so never beyond 3.5.
  float normal() noexcept {
    const std::uint64_t four = word();
    constexpr std::uint64_t low = 0xffff;
    const std::uint64_t sum = (four & low) + (four >> 16 & low) + (four >> 32 & low) + (four >> 48);
    constexpr float mean = 2.0f * 65535.0f;
    constexpr float deviation = 37837.2f;  // 65536 * sqrt(4 / 12)
    return (static_cast<float>(sum) - mean) / deviation;
  }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;

  static std::uint64_t mix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t state_[4];
};

// A place's number from a name (FNV-1a).
constexpr std::uint64_t number_of(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace ebb::tools
