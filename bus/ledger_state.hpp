// bus/ledger_state.hpp: what the ledger must not forget when the daemon ends, however it ends; as bytes, a msgpack map.
#pragma once
#include "bus/bytes.hpp"
#include "bus/request_id.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebb::bus {

struct card_state {
  std::optional<std::uint32_t> reserve_mib;  // that a command asked for; none: what the settings say
  std::optional<double> together_mib;        // of cache and free memory when the first of the leases held now was given
  std::optional<double> yield_mib;           // what the cache may map while it gives way to others; none: it does not
  friend bool operator==(const card_state&, const card_state&) = default;
};

struct lease_state {
  std::uint64_t lease_id = 0;
  std::string owner;
  std::uint32_t device = 0;
  std::uint32_t mib = 0;
  std::uint64_t ends_unix_ms = 0;
  std::uint32_t pid = 0;        // 0: none
  std::uint64_t pid_began = 0;  // tells a process from a later one with its number
  request_id asked_by;
  friend bool operator==(const lease_state&, const lease_state&) = default;
};

struct ledger_state {
  std::vector<card_state> cards;  // in the order of their numbers
  std::vector<lease_state> leases;
  std::uint64_t leases_given = 0;  // lease ids are never used again
  friend bool operator==(const ledger_state&, const ledger_state&) = default;
};

bytes encode_state(const ledger_state& what);

// Errors: malformed, missing_key, bad_value; unsupported_version.
result<ledger_state> decode_state(bytes_view frame);

}  // namespace ebb::bus
