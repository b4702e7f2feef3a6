#include "actors/ledger.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <string>
#include <utility>

namespace ebb::actors {
namespace {

tl::unexpected<error> no_such_lease(std::uint64_t id) {
  return fail(errc::unknown_lease, "no lease " + std::to_string(id) + " is held: it was never given, was released, or has expired; acquire a new one");
}

// An iterator into `leases`; its end if there is none with that id.
template <class Leases>
auto find_lease(Leases& leases, std::uint64_t id) {
  return std::find_if(leases.begin(), leases.end(), [&](const held_lease& each) { return each.id == id; });
}

std::chrono::seconds duration_of(std::optional<std::uint32_t> ttl_s) { return std::chrono::seconds(ttl_s.value_or(limits::lease_ttl_s_default)); }

std::chrono::milliseconds in_ms(time_point::duration time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time); }

}  // namespace

std::string_view to_string(lease_cause cause) noexcept {
  switch (cause) {
    case lease_cause::released: return "released";
    case lease_cause::expired: return "expired";
    case lease_cause::holder_ended: return "holder_ended";
    case lease_cause::client_left: return "client_left";
  }
  return "unknown";
}

bus::lease_info held_lease::info(time_point now) const {
  return {id, owner, card.value, mib, std::max(0.0, milliseconds_between(now, ends) / 1000), pid};
}

ledger::ledger(std::vector<std::uint32_t> start_reserve_mib) {
  EBB_ASSERT(!start_reserve_mib.empty());
  for (const std::uint32_t mib : start_reserve_mib) cards_.push_back({.start_mib = mib, .reserve_mib = mib, .together_mib = {}, .yield_mib = {}});
}

std::string ledger::devices() const {
  return cards_.size() == 1 ? "the only device is 0" : "devices are 0 to " + std::to_string(cards_.size() - 1);
}

result<std::vector<reserve_target>> ledger::targets(std::optional<std::uint32_t> reserve_mib, std::optional<std::uint32_t> device) const {
  const auto target_of = [&](std::uint32_t number) { return reserve_target{{number}, reserve_mib.value_or(cards_[number].start_mib)}; };
  if (device) {
    if (*device < cards_.size()) return std::vector{target_of(*device)};
    return fail(errc::unknown_device, "no device " + std::to_string(*device) + " in this run; " + devices());
  }
  std::vector<reserve_target> all;
  for (std::uint32_t number = 0; number < cards_.size(); ++number) all.push_back(target_of(number));
  return all;
}

void ledger::set(const reserve_target& held) {
  if (std::exchange(cards_.at(held.card.value).reserve_mib, held.reserve_mib) != held.reserve_mib) ++revision_;
}

result<void> ledger::check(const bus::lease& acquire) const {
  EBB_ASSERT(acquire.device.has_value());
  if (auto known = targets(0u, acquire.device); !known) return fail(known.error());
  if (leases_.size() < limits::leases_max) return {};
  return fail(errc::busy, std::to_string(limits::leases_max) + " leases are held already; release some");
}

const held_lease* ledger::given_for(const bus::lease& acquire, const bus::request_id& asked_by) const {
  if (!std::holds_alternative<std::string>(asked_by.value)) return nullptr;
  const auto found = std::find_if(leases_.begin(), leases_.end(), [&](const held_lease& each) {
    return each.asked_by == asked_by && each.owner == acquire.owner && each.card.value == acquire.device;
  });
  return found == leases_.end() ? nullptr : &*found;
}

const held_lease& ledger::grant(const bus::lease& acquire, const bus::request_id& asked_by, std::uint32_t mib, std::uint64_t pid_began, time_point now) {
  EBB_ASSERT(check(acquire).has_value());
  EBB_ASSERT(cards_.at(*acquire.device).together_mib.has_value());
  EBB_ASSERT(mib > 0);
  held_lease given;
  given.id = ++given_;
  given.owner = acquire.owner;
  given.card = {*acquire.device};
  given.mib = mib;
  given.ends = now + duration_of(acquire.ttl_s);
  given.pid = acquire.pid.value_or(0);
  given.pid_began = pid_began;
  given.asked_by = asked_by;
  ++revision_;
  return leases_.emplace_back(std::move(given));
}

const held_lease* ledger::find(std::uint64_t id) const {
  const auto found = find_lease(leases_, id);
  return found == leases_.end() ? nullptr : &*found;
}

void ledger::set_end(std::uint64_t id, time_point ends) {
  const auto found = find_lease(leases_, id);
  EBB_ASSERT(found != leases_.end());
  found->ends = ends;
  ++revision_;
}

void ledger::yield(card_id card, std::optional<double> ceiling_mib) {
  if (std::exchange(cards_.at(card.value).yield_mib, ceiling_mib) != ceiling_mib) ++revision_;
}

result<held_lease> ledger::renew(std::uint64_t id, std::optional<std::uint32_t> ttl_s, time_point now) {
  const auto found = find_lease(leases_, id);
  if (found == leases_.end() || found->ends <= now) return no_such_lease(id);
  found->ends = now + duration_of(ttl_s);
  ++revision_;
  return *found;
}

result<ended_lease> ledger::end(std::uint64_t id, lease_cause cause) {
  const auto found = find_lease(leases_, id);
  if (found == leases_.end()) return no_such_lease(id);
  ended_lease ended{std::move(*found), cause};
  leases_.erase(found);
  ++revision_;
  forget_together();
  return ended;
}

std::vector<ended_lease> ledger::take_ended(time_point now, const std::function<bool(std::uint32_t, std::uint64_t)>& alive) {
  std::vector<ended_lease> ended;
  std::erase_if(leases_, [&](held_lease& each) {
    const bool over = each.ends <= now;
    if (!over && (each.pid == 0 || alive(each.pid, each.pid_began))) return false;
    ++revision_;
    ended.push_back({std::move(each), over ? lease_cause::expired : lease_cause::holder_ended});
    return true;
  });
  forget_together();
  return ended;
}

std::optional<time_point> ledger::next_end() const {
  const auto first = std::min_element(leases_.begin(), leases_.end(), [](const auto& a, const auto& b) { return a.ends < b.ends; });
  if (first == leases_.end()) return std::nullopt;
  return first->ends;
}

bool ledger::watches_processes() const {
  return std::any_of(leases_.begin(), leases_.end(), [](const held_lease& each) { return each.pid != 0; });
}

std::uint64_t ledger::lent_mib(card_id card) const {
  std::uint64_t sum = 0;
  for (const held_lease& each : leases_) sum += each.card == card ? each.mib : 0;
  return sum;
}

void ledger::note_together(card_id card, double mib) {
  EBB_ASSERT(lent_mib(card) == 0);
  cards_.at(card.value).together_mib = mib;  // no new revision: it matters once a lease is given
}

// Once the last lease of a card has ended, its memory is whatever the device says again.
void ledger::forget_together() {
  for (std::uint32_t number = 0; number < cards_.size(); ++number) {
    if (lent_mib({number}) == 0) cards_[number].together_mib.reset();
  }
}

std::uint32_t ledger::room_mib(card_id card, std::uint32_t reserve_mib) const {
  const double together = cards_.at(card.value).together_mib.value();
  return static_cast<std::uint32_t>(std::max(0.0, together - reserve_mib - static_cast<double>(lent_mib(card))));
}

double ledger::short_mib(card_id card, std::uint32_t reserve_mib) const {
  if (!lends(card)) return 0;
  return std::max(0.0, static_cast<double>(lent_mib(card)) + reserve_mib - cards_.at(card.value).together_mib.value());
}

std::optional<double> ledger::ceiling_mib(card_id card, std::uint32_t reserve_mib, std::uint32_t extra_mib) const {
  const auto& of = cards_.at(card.value);
  const double promised = static_cast<double>(lent_mib(card) + extra_mib);
  std::optional<double> ceiling = of.yield_mib;
  if (promised > 0) {
    EBB_ASSERT(of.together_mib.has_value());
    const double left = std::max(0.0, *of.together_mib - reserve_mib - promised);
    ceiling = std::min(ceiling.value_or(left), left);
  }
  return ceiling;
}

bus::ledger_state ledger::state(time_point now, std::uint64_t unix_ms) const {
  bus::ledger_state out;
  out.leases_given = given_;
  for (const holding& each : cards_) {
    const bool asked_for = each.reserve_mib != each.start_mib;
    out.cards.push_back({asked_for ? std::optional(each.reserve_mib) : std::nullopt, each.together_mib, each.yield_mib});
  }
  for (const held_lease& each : leases_) {
    const auto left = std::max<std::int64_t>(0, in_ms(each.ends - now).count());
    out.leases.push_back({each.id, each.owner, each.card.value, each.mib, unix_ms + static_cast<std::uint64_t>(left), each.pid, each.pid_began, each.asked_by});
  }
  return out;
}

// A clock that was set back must not make a lease longer than any may be.
result<void> ledger::restore(const bus::ledger_state& from, time_point now, std::uint64_t unix_ms) {
  if (from.cards.size() != cards_.size()) {
    return fail(errc::bad_value, "the kept state is of " + std::to_string(from.cards.size()) + " card(s) and this run has " + std::to_string(cards_.size()) +
                                     ": its reserves and " + std::to_string(from.leases.size()) + " lease(s) do not hold here");
  }
  for (std::size_t number = 0; number < cards_.size(); ++number) {
    cards_[number].reserve_mib = from.cards[number].reserve_mib.value_or(cards_[number].start_mib);
    cards_[number].together_mib = from.cards[number].together_mib;
    cards_[number].yield_mib = from.cards[number].yield_mib;
  }
  given_ = from.leases_given;
  const std::uint64_t longest_ms = std::uint64_t{limits::lease_ttl_s_max} * 1000;
  for (const bus::lease_state& each : from.leases) {
    const bool sound = each.device < cards_.size() && cards_[each.device].together_mib && each.mib > 0;
    if (!sound || each.ends_unix_ms <= unix_ms) continue;
    const std::chrono::milliseconds left(static_cast<std::int64_t>(std::min(each.ends_unix_ms - unix_ms, longest_ms)));
    leases_.push_back({each.lease_id, each.owner, {each.device}, each.mib, now + left, each.pid, each.pid_began, each.asked_by});
    given_ = std::max(given_, each.lease_id);
  }
  forget_together();
  return {};
}

}  // namespace ebb::actors
