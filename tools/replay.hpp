// tools/replay.hpp: feeds the inbound messages of a journal to a target, and compares its replies with the recorded ones.
//
// A frame or a departure is fed when every reply recorded before it has been matched by one of the target, so commands fall at the
// same token of an answer as they did. Replies are compared in the order of their request; those of different requests may come in
// any order. What need not be the same is in tools/replay_masks.hpp.
#pragma once
#include "bus/client_id.hpp"
#include "bus/request_id.hpp"
#include "config/result.hpp"
#include "tools/replay_target.hpp"
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ebb::tools {

struct replay_difference {
  std::uint64_t record = 0;  // of the journal, 1 first: the recorded reply, or what came last before a reply too many
  bus::client_id client;
  bus::request_id id;
  std::string field;  // its path, such as "cards/0/reserve_mib"; "reply" where one of the two is missing
  std::string recorded;
  std::string replayed;
};

struct replay_report {
  std::uint64_t runs = 0;         // of the daemon that recorded
  std::uint64_t requests = 0;     // frames fed
  std::uint64_t replies = 0;      // compared
  std::uint64_t passed_over = 0;  // requests that the recorded daemon answered without a model: before its load, or at its end
  std::uint64_t lost = 0;         // messages that the journal says are missing
  std::uint64_t differences_all = 0;
  std::vector<replay_difference> differences;  // the first of them, at most limits::replay_differences_max
  std::optional<error> torn;                   // why the journal ended early; none: read to its end
};

// Errors: those of journal_reader::open; of a journal without one whole record; of `target_for`; of the target's take().
result<replay_report> replay(const std::filesystem::path& journal, const target_factory& target_for);

}  // namespace ebb::tools
