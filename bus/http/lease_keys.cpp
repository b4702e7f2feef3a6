#include "bus/http/lease_keys.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"

namespace ebb::bus::http {
namespace {

lease without_wait(lease of) {
  of.wait_s.reset();
  return of;
}

}  // namespace

// Held leases and requests under way are far fewer than the bound.
void lease_keys::forget_ended(const is_held& held) {
  std::erase_if(entries_, [&](const auto& each) { return each.second.under_way == 0 && !(each.second.lease_id && held(*each.second.lease_id)); });
}

bool lease_keys::begin(const std::string& key, const lease& wanted, const is_held& held) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= limits::http_lease_keys_max) forget_ended(held);
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.wanted != without_wait(wanted)) {
    const entry& known = found->second;
    if (known.under_way > 0 || (known.lease_id && held(*known.lease_id))) return false;
    entries_.erase(found);
  }
  entry& begun = entries_.try_emplace(key, entry{without_wait(wanted), 0, {}}).first->second;
  ++begun.under_way;
  return true;
}

void lease_keys::end(const std::string& key, const std::optional<std::uint64_t>& lease_id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  EBB_ASSERT(found != entries_.end() && found->second.under_way > 0);
  entry& known = found->second;
  --known.under_way;
  if (lease_id) known.lease_id = lease_id;
  if (known.under_way == 0 && !known.lease_id) entries_.erase(found);
}

}  // namespace ebb::bus::http
