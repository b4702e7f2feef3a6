// actors/ledger.hpp: how much must be free on which card, and what of it is promised to whom, until when.
//
// A card's cache may map what is left of its memory after the reserve and the leases:
//   ceiling = together - reserve - sum of the leases        together = mapped by the cache + free, before the first of the leases
// The sum is taken once, when no lease is held, and not read again while one is: the holder's own use lowers the free figure, and
// a lease must count once, whether its holder has taken the memory already or not. So leases add up, and a cache never grows into
// memory that was promised and is still free.
//
// A reserve that a command asked for outlives the daemon; one that nobody changed is what the settings say at the next start.
//
// A plain class: no CAF, no clock, no device, no files.
#pragma once
#include "actors/clock.hpp"
#include "bus/ledger_state.hpp"
#include "bus/messages.hpp"
#include "config/ids.hpp"
#include "config/result.hpp"
#include <functional>
#include <optional>
#include <vector>

namespace ebb::actors {

struct reserve_target {
  card_id card;
  std::uint32_t reserve_mib;
  friend bool operator==(const reserve_target&, const reserve_target&) = default;
};

struct held_lease {
  std::uint64_t id = 0;
  std::string owner;
  card_id card;
  std::uint32_t mib = 0;
  time_point ends{};
  std::uint32_t pid = 0;        // 0: none
  std::uint64_t pid_began = 0;  // tells a process from a later one with its number
  bus::request_id asked_by;

  bus::lease_info info(time_point now) const;
};

enum class lease_cause : std::uint8_t { released, expired, holder_ended, client_left };
std::string_view to_string(lease_cause cause) noexcept;

struct ended_lease {
  held_lease lease;
  lease_cause cause;
};

class ledger {
 public:
  // The reserves of the start, one a card in the order of their numbers. Pre: at least one card (asserts).
  explicit ledger(std::vector<std::uint32_t> start_reserve_mib);

  // --- reserves
  // What a command asks of which card. Changes nothing. Errors: unknown_device (names the devices there are).
  result<std::vector<reserve_target>> targets(std::optional<std::uint32_t> reserve_mib, std::optional<std::uint32_t> device) const;
  // A card has been brought to this reserve.
  void set(const reserve_target& held);
  std::uint32_t reserve_mib(card_id card) const { return cards_.at(card.value).reserve_mib; }
  std::size_t n_cards() const noexcept { return cards_.size(); }

  // --- leases
  // Whether such a lease could be given, memory aside. Errors: unknown_device, busy (too many leases).
  result<void> check(const bus::lease& acquire) const;
  // The lease that this very request was given already. Ids that are text name a request for good, over connections and restarts;
  // numbers begin anew on each connection, so only the gateway's own book can tell there.
  const held_lease* given_for(const bus::lease& acquire, const bus::request_id& asked_by) const;
  // Pre: check() allows it, and together() has been noted.
  const held_lease& grant(const bus::lease& acquire, const bus::request_id& asked_by, std::uint32_t mib, std::uint64_t pid_began, time_point now);
  // From now on. Errors of both: unknown_lease (never given, ended or expired: an expired one is not revived).
  result<held_lease> renew(std::uint64_t id, std::optional<std::uint32_t> ttl_s, time_point now);
  // Takes a renewal back that could not be written down. Pre: the lease is held (asserts).
  void set_end(std::uint64_t id, time_point ends);
  result<ended_lease> end(std::uint64_t id, lease_cause cause);
  // Takes out what has ended by itself: the time is over, or `alive` says that the holder's process is not there any more.
  std::vector<ended_lease> take_ended(time_point now, const std::function<bool(std::uint32_t pid, std::uint64_t began)>& alive);

  const std::vector<held_lease>& leases() const noexcept { return leases_; }  // oldest first
  const held_lease* find(std::uint64_t id) const;                             // null: not held
  bool lends(card_id card) const { return lent_mib(card) > 0; }
  std::optional<time_point> next_end() const;
  bool watches_processes() const;

  // --- ceilings
  // Pre: nothing is lent on the card (asserts). Forgotten when its last lease has ended; to be noted anew before the first.
  void note_together(card_id card, double mib);
  // What others leave to the watcher's discretion; none: nothing.
  void yield(card_id card, std::optional<double> ceiling_mib);
  std::optional<double> yield_mib(card_id card) const { return cards_.at(card.value).yield_mib; }
  // What could still be promised at this reserve, whoever uses it now. Pre: together was noted.
  std::uint32_t room_mib(card_id card, std::uint32_t reserve_mib) const;
  // So much of this reserve and of what is lent beside it the card could not give, whoever uses it now; 0 while nothing is lent: then the device knows.
  double short_mib(card_id card, std::uint32_t reserve_mib) const;
  // The most that the cache may map at this reserve, with `extra_mib` more promised; none: no limit but the reserve.
  std::optional<double> ceiling_mib(card_id card, std::uint32_t reserve_mib, std::uint32_t extra_mib = 0) const;

  // Grows whenever what state() says has changed, time apart.
  std::uint64_t revision() const noexcept { return revision_; }

  // --- across restarts. What has expired meanwhile is left out of restore. Errors: bad_value (of another number of cards).
  bus::ledger_state state(time_point now, std::uint64_t unix_ms) const;
  result<void> restore(const bus::ledger_state& from, time_point now, std::uint64_t unix_ms);

 private:
  struct holding {
    std::uint32_t start_mib = 0;
    std::uint32_t reserve_mib = 0;
    std::optional<double> together_mib;
    std::optional<double> yield_mib;
  };

  std::string devices() const;
  std::uint64_t lent_mib(card_id card) const;
  void forget_together();

  std::vector<holding> cards_;
  std::vector<held_lease> leases_;
  std::uint64_t given_ = 0;
  std::uint64_t revision_ = 0;
};

}  // namespace ebb::actors
