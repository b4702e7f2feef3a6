// bus/http/lease_keys.hpp: what was asked for with which Idempotency-Key, so that a key that stands for a lease does not ask for another.
//
// The daemon's ledger knows which lease a key has, over restarts too; this knows what its body said, as long as this daemon runs.
#pragma once
#include "bus/messages.hpp"
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace ebb::bus::http {

class lease_keys {
 public:
  // Whether a lease is held by now.
  using is_held = std::function<bool(std::uint64_t lease_id)>;

  // A request begins. False: the key stands for another body, whose lease is held or being asked for. How long it may wait tells no two apart.
  bool begin(const std::string& key, const lease& wanted, const is_held& held);
  // It has ended, with a lease or with none.
  void end(const std::string& key, const std::optional<std::uint64_t>& lease_id);

 private:
  struct entry {
    lease wanted;
    std::size_t under_way = 0;
    std::optional<std::uint64_t> lease_id;
  };
  void forget_ended(const is_held& held);

  std::mutex mutex_;
  std::map<std::string, entry> entries_;
};

}  // namespace ebb::bus::http
