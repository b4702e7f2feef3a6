// tests/sim/support/neighbours.hpp: who else uses the memory of the cards: holders of leases, within what they were lent, and
// strangers who take what they find.
#pragma once
#include "support/failing_arena.hpp"
#include <cstdint>
#include <map>
#include <vector>

namespace ebb::sim {

using actors::test::shared_device;

class neighbours {
 public:
  explicit neighbours(std::vector<shared_device>& devices) : devices_(devices), strangers_(devices.size(), 0) {}

  void stranger_takes(std::size_t card, std::uint64_t bytes) {
    const std::uint64_t can = std::min(bytes, devices_[card].free_bytes());
    strangers_[card] += can;
    devices_[card].others_bytes += can;
  }
  void stranger_gives(std::size_t card, std::uint64_t bytes) {
    const std::uint64_t back = std::min(bytes, strangers_[card]);
    strangers_[card] -= back;
    devices_[card].others_bytes -= back;
  }

  // A holder takes as much of its lease as there is.
  void holder_takes(std::uint64_t lease, std::size_t card, std::uint64_t lent_bytes) {
    auto& of = holders_[lease];
    of.card = card;
    const std::uint64_t can = std::min(lent_bytes - of.taken_bytes, devices_[card].free_bytes());
    of.taken_bytes += can;
    devices_[card].others_bytes += can;
  }
  void holder_gives(std::uint64_t lease) {
    const auto found = holders_.find(lease);
    if (found == holders_.end()) return;
    devices_[found->second.card].others_bytes -= found->second.taken_bytes;
    holders_.erase(found);
  }
  std::uint64_t taken_by(std::uint64_t lease) const {
    const auto found = holders_.find(lease);
    return found == holders_.end() ? 0 : found->second.taken_bytes;
  }

  void everybody_gives() {
    for (std::size_t card = 0; card < devices_.size(); ++card) devices_[card].others_bytes = strangers_[card] = 0;
    holders_.clear();
  }

 private:
  struct holder {
    std::size_t card = 0;
    std::uint64_t taken_bytes = 0;
  };
  std::vector<shared_device>& devices_;
  std::vector<std::uint64_t> strangers_;     // [cards]
  std::map<std::uint64_t, holder> holders_;  // by lease
};

}  // namespace ebb::sim
