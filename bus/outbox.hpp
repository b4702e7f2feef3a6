// bus/outbox.hpp: replies on their way from any thread to the socket's thread, bounded for each client and in all.
//
// A reply counts from push() until settle(), so also while the socket's thread holds it back for a client that reads slowly:
// what is accepted here need never be dropped for lack of room.
#pragma once
#include "bus/bytes.hpp"
#include "bus/client_id.hpp"
#include "bus/wake_event.hpp"
#include "config/result.hpp"
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ebb::bus {

class outbox {
 public:
  struct item {
    client_id to;
    bytes frame;
  };

  // From any thread. Errors: busy.
  result<void> push(const client_id& to, bytes frame);

  // Everything pushed since, in order.
  std::vector<item> take();

  // `count` replies to this client were sent, or will never be.
  void settle(const client_id& to, std::size_t count);

  // Becomes readable when there is something to take, or after wake().
  int readable_fd() const noexcept { return event_.fd(); }
  void wake() { event_.wake(); }

 private:
  std::mutex mutex_;
  std::vector<item> queued_;
  std::unordered_map<client_id, std::size_t> unsettled_;  // no entry: none
  std::size_t unsettled_total_ = 0;
  wake_event event_;
};

}  // namespace ebb::bus
