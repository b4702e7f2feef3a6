// tools/replay_masks.hpp: the fields of replies that need not be the same when a journal is replayed, and why.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace ebb::tools {

enum class masked : std::uint8_t {
  always,
  unless_exact,  // where recording and replay do not both run in virtual time: they depend on what falls between which two windows
  after_cancel,  // likewise, and only in the last reply to a generate that was cancelled: it ends some tokens earlier or later
};

struct replay_mask {
  std::string_view field;
  masked when;
  std::string_view reason;
  std::string_view of = {};  // the type of the reply, of a text one in its letters too; empty: any
};

inline constexpr std::array replay_masks{
    replay_mask{"prompt_ms", masked::always, "a time"},
    replay_mask{"decode_ms", masked::always, "a time"},
    replay_mask{"gap_ms_max", masked::always, "a time"},
    replay_mask{"took_ms", masked::always, "a time"},
    replay_mask{"uptime_s", masked::always, "a time"},
    replay_mask{"ends_in_s", masked::always, "a time"},
    replay_mask{"ms_per_token", masked::always, "comes from times"},
    replay_mask{"ms_per_token_now", masked::always, "comes from times"},
    replay_mask{"tokens_per_s", masked::always, "comes from times"},
    replay_mask{"tokens_per_s_now", masked::always, "comes from times"},
    replay_mask{"gap_counts", masked::always, "comes from times"},
    replay_mask{"gap_ms_sum", masked::always, "comes from times"},
    replay_mask{"rss_mib", masked::always, "of the process and its machine"},
    replay_mask{"rss_anon_mib", masked::always, "of the process and its machine"},
    replay_mask{"gpu", masked::always, "of the machine"},
    replay_mask{"gpu_name", masked::always, "of the machine"},
    replay_mask{"pci_address", masked::always, "of the machine"},
    replay_mask{"uuid", masked::always, "of the machine"},
    replay_mask{"held_mib", masked::always, "of the machine: buffers are as its GPU needs them"},
    replay_mask{"version", masked::always, "of the program; a replay compares two of them"},
    replay_mask{"model", masked::always, "a path on a machine; that it is the same model, the answers show"},
    replay_mask{"endpoints", masked::always, "of the daemon that serves"},
    replay_mask{"sequence", masked::always, "counts events, and some of them come with time"},
    replay_mask{"hit_rate", masked::unless_exact, "a resize that falls one window later leaves the experts one window longer"},
    replay_mask{"hit_rate_now", masked::unless_exact, "as hit_rate"},
    replay_mask{"hits", masked::unless_exact, "as hit_rate"},
    replay_mask{"misses", masked::unless_exact, "as hit_rate"},
    replay_mask{"misses_cpu", masked::unless_exact, "as hit_rate"},
    replay_mask{"misses_copied", masked::unless_exact, "as hit_rate"},
    replay_mask{"heat", masked::unless_exact, "tokens that are not sent yet have used experts too"},
    replay_mask{"heat_max", masked::unless_exact, "as heat"},
    replay_mask{"resident", masked::unless_exact, "by heat, experts are exchanged for hotter ones", "experts"},
    replay_mask{"slots_to_fill", masked::unless_exact, "a refill is further on, or less far"},
    replay_mask{"fast_path", masked::unless_exact, "the fast path is told a moment after the experts are there"},
    replay_mask{"windows", masked::unless_exact, "requests share a window when they come together"},
    replay_mask{"tokens_generated", masked::unless_exact, "the engine has tokens that are not sent yet"},
    replay_mask{"prompt_tokens", masked::unless_exact, "as tokens_generated: of all prompts so far, some of them under way", "status"},
    replay_mask{"pid", masked::unless_exact, "a daemon is fed leases without their processes, which ended with the recording"},
    replay_mask{"sessions", masked::unless_exact, "a session ends a moment before or after its last reply is sent"},
    replay_mask{"waiting", masked::unless_exact, "as sessions"},
    replay_mask{"generated_tokens", masked::after_cancel, "tokens are made until the cancel arrives"},
    replay_mask{"text", masked::after_cancel, "as generated_tokens"},
    replay_mask{"hash", masked::after_cancel, "as generated_tokens"},
};

// "STATUS" is the text form of "status".
constexpr bool is_type(std::string_view wanted, std::string_view type) noexcept {
  const auto lower = [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; };
  return std::equal(wanted.begin(), wanted.end(), type.begin(), type.end(), [&](char a, char b) { return a == lower(b); });
}

// Whether the field of a reply of this type is left out. `exact`: recording and replay in virtual time. `cancelled`: see masked::after_cancel.
constexpr bool is_masked(std::string_view type, std::string_view field, bool exact, bool cancelled) noexcept {
  return std::any_of(replay_masks.begin(), replay_masks.end(), [&](const replay_mask& each) {
    if (each.field != field || !(each.of.empty() || is_type(each.of, type))) return false;
    return each.when == masked::always || (!exact && (each.when == masked::unless_exact || cancelled));
  });
}

}  // namespace ebb::tools
