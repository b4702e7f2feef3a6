// tools/journal_state.hpp: what a daemon had kept from an earlier one, in the header of its journal: the key `state`, as JSON.
#pragma once
#include "bus/ledger_state.hpp"
#include "config/result.hpp"
#include <map>
#include <optional>
#include <string>

namespace ebb::tools {

// Left out if it is larger than journal_state_bytes_max, which takes hundreds of leases with long names: a header must fit a record.
void add_state(std::map<std::string, std::string>& about, const bus::ledger_state& kept);

// None: the run began with nothing. Errors: malformed (no JSON), those of bus::decode_state().
result<std::optional<bus::ledger_state>> state_in(const std::map<std::string, std::string>& about);

inline constexpr std::size_t journal_state_bytes_max = 32u << 10;

}  // namespace ebb::tools
