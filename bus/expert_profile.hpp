// bus/expert_profile.hpp: which experts of a model were hot, from one daemon to the next; as bytes, a msgpack map.
#pragma once
#include "bus/bytes.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <string>
#include <vector>

namespace ebb::bus {

struct expert_profile {
  std::string model;             // the file's name, without its folder: a model that was moved is the same
  std::uint64_t size_bytes = 0;  // of the file
  std::uint32_t layers = 0;
  std::uint32_t experts = 0;     // a layer
  std::vector<float> heat;       // [layers, experts], in uses, >= 0
  friend bool operator==(const expert_profile&, const expert_profile&) = default;
};

bytes encode_profile(const expert_profile& what);

// Errors: malformed, missing_key, bad_value (also where the number of heats is not layers * experts); unsupported_version.
result<expert_profile> decode_profile(bytes_view frame);

}  // namespace ebb::bus
