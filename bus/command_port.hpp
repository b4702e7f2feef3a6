// bus/command_port.hpp: the door to the daemon for clients in its own process, such as HTTP.
//
// They speak the messages of the socket, are told of events, and are in the journal like all others. A client is one conversation:
// what it has under way is cancelled when it leaves.
#pragma once
#include "bus/client_id.hpp"
#include "bus/events.hpp"
#include "bus/messages.hpp"
#include <cstdint>
#include <functional>

namespace ebb::bus {

class command_port {
 public:
  virtual ~command_port() = default;

  // A new client, with an id that no other has had. Its replies come on threads of the daemon, one at a time and in order, also
  // within submit(); `take` must not block, and must not call leave() for itself.
  virtual client_id join(std::function<void(const reply&)> take) = 0;

  // From any thread. Asserts that the client has joined and not left, and that the request has an id.
  virtual void submit(const client_id& who, const request& asked) = 0;

  // Ends what the client has under way, as the end of a connection does. No reply comes any more when it returns. Leases that it was
  // given stay, as everybody's do.
  virtual void leave(const client_id& who) = 0;

  // Every event from now on, in order; `take` must not block, and must not call unlisten(). The number is for unlisten(), after
  // which no event comes.
  virtual std::uint64_t listen(std::function<void(const event&)> take) = 0;
  virtual void unlisten(std::uint64_t number) = 0;
};

}  // namespace ebb::bus
