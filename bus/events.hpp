// bus/events.hpp: what the daemon tells everybody who listens, unasked. As bytes: a msgpack map {v, event, sequence, unix_ms, ...}.
//
//   residency_flipped   a stage became resident, or no longer is
//   resized             a card's cache has another size
//   lease_granted, lease_ended
//   short               a card could not free what was asked for, and holds its floor
//   pressure            another program took memory, and a cache gives way unasked; or it is over
//   card_lost           a device failed; its stage is gone until the daemon is started again
//   model_loaded        every card is ready
//
// `sequence` counts from 1 without gaps: who sees a gap has missed some, and asks `cards` and `lease list` for what holds now.
#pragma once
#include "bus/bytes.hpp"
#include "bus/messages.hpp"
#include <cstdint>
#include <string>
#include <variant>

namespace ebb::bus {

struct residency_flipped {
  std::uint32_t device = 0;
  bool resident = false;
  std::uint32_t experts_resident = 0;
  std::uint32_t experts = 0;
  friend bool operator==(const residency_flipped&, const residency_flipped&) = default;
};

struct resized {
  card_report card;
  std::string cause;  // "command", "lease", "lease_ended" or "pressure"
  friend bool operator==(const resized&, const resized&) = default;
};

struct lease_granted {
  lease_info lease;
  friend bool operator==(const lease_granted&, const lease_granted&) = default;
};

struct lease_ended {
  lease_info lease;
  std::string cause;  // "released", "expired", "holder_ended" or "client_left"
  friend bool operator==(const lease_ended&, const lease_ended&) = default;
};

struct short_of {
  std::uint32_t device = 0;
  double short_mib = 0;
  friend bool operator==(const short_of&, const short_of&) = default;
};

struct pressure {
  std::uint32_t device = 0;
  bool begins = false;  // false: it is over
  double free_mib = 0;
  double wanted_mib = 0;
  friend bool operator==(const pressure&, const pressure&) = default;
};

struct card_lost {
  std::uint32_t device = 0;
  std::string text;
  friend bool operator==(const card_lost&, const card_lost&) = default;
};

struct model_loaded {
  std::string model;
  std::uint32_t cards = 0;
  friend bool operator==(const model_loaded&, const model_loaded&) = default;
};

using event_body = std::variant<residency_flipped, resized, lease_granted, lease_ended, short_of, pressure, card_lost, model_loaded>;

struct event {
  std::uint64_t sequence = 0;
  std::uint64_t unix_ms = 0;
  event_body body;
  friend bool operator==(const event&, const event&) = default;
};

std::string_view name_of_event(const event_body& body);
bytes encode_event(const event& what);

// Errors: those of decode_reply.
result<event> decode_event(bytes_view frame);

}  // namespace ebb::bus
