// actors/request_book.hpp: which requests of which clients are being answered, and the newest answers, to be given again.
//
// A client that asks the same again with the same id gets the same answer, and nothing is done twice. How many requests are open at a time
// and how many answers are remembered is bounded. A plain class: no CAF, no clock.
#pragma once
#include "bus/client_id.hpp"
#include "bus/messages.hpp"
#include <cstddef>
#include <list>
#include <map>
#include <optional>

namespace ebb::actors {

class request_book {
 public:
  request_book(std::size_t open_max, std::size_t remembered_max) : open_max_(open_max), remembered_max_(remembered_max) {}

  enum class verdict : std::uint8_t {
    fresh,       // to be done; open now
    in_progress, // its answer will come
    answered,    // answer() has it
    full,        // too many are open
    another,     // the id belongs to another request
  };
  // Text commands have no id and are always fresh; each must be closed like the others. `what` tells requests apart.
  verdict begin(const bus::client_id& client, const bus::request_id& id, std::uint64_t what);

  // The last reply of a request that verdict says is answered.
  const bus::reply& answer(const bus::client_id& client, const bus::request_id& id) const;

  // A request has been answered with its last reply. It is remembered, unless it says that another try may do better, or `remember`
  // is false: then whoever asks again asks anew.
  void finish(const bus::client_id& client, const bus::reply& last, bool remember = true);

  // Forgets a client that has left. Its open requests are closed.
  void forget(const bus::client_id& client);

  std::size_t open_count() const noexcept { return open_; }

 private:
  struct key {
    bus::client_id client;
    bus::request_id id;
    friend auto operator<=>(const key&, const key&) = default;
  };
  struct entry {
    std::uint64_t what = 0;
    std::optional<bus::reply> answer;            // none while it is open
    std::list<key>::iterator remembered{};       // valid once there is an answer
  };

  std::size_t open_max_;
  std::size_t remembered_max_;
  std::size_t open_ = 0;
  std::map<bus::client_id, std::size_t> open_text_;  // text commands under way
  std::map<key, entry> entries_;
  std::list<key> answered_;  // oldest first
};

}  // namespace ebb::actors
