// bus/router_socket.hpp: the daemon's end of the bus: one thread, one ROUTER, any number of clients.
//
// Frames go to on_frame and departures to on_gone, both on the socket's own thread: they must not block or throw, and may call
// send(). Replies come from any thread through send(), which only queues them. A reply that send() accepted is lost only if its
// client leaves or the daemon stops: where ZeroMQ would drop it (a client that reads too slowly), it waits in a bounded backlog.
//
// Life: open() binds, start() begins to read, stop() ends it. Between open() and the destructor send() is always safe to call.
//
// A client's identity proves nothing, since a client may choose it. Who may connect is decided by the socket file's mode, and on
// tcp by keys.
#pragma once
#include "bus/bytes.hpp"
#include "bus/client_id.hpp"
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ebb::bus {

class router_socket {
 public:
  struct handlers {
    std::function<void(const client_id& from, bytes frame)> on_frame;
    // The client has closed its socket, died, or can no longer be reached. Comes after the last frame of every client; a client
    // that left while frames of it were still on their way may be reported before them as well.
    std::function<void(const client_id& who)> on_gone;
    // Whether whoever takes the frames has room for one more; empty: always. While it has none nothing is read, so that what clients
    // send on waits in their own queues.
    std::function<bool()> has_room;
  };

  // Binds all of them or none, with the guards and errors of bus/binder.hpp. Clients may connect from now on, but nothing is read
  // yet, and no client's keys are judged.
  static result<std::unique_ptr<router_socket>> open(const std::vector<std::string>& endpoints,
                                                     const std::optional<curve_server_keys>& keys = {});

  // Begins to read, so only call it when all that the handlers use is there. Once.
  void start(handlers handle);

  // Ends the thread: no handler runs when it returns, and replies that have not left within limits::stop_linger are dropped.
  // The socket files are removed. The destructor stops what still runs. Not from a handler.
  void stop();

  ~router_socket();
  router_socket(const router_socket&) = delete;
  router_socket& operator=(const router_socket&) = delete;

  // From any thread; never blocks. Replies to one client arrive in the order of the calls.
  // Errors: busy (this client, or all together, have too many unsent replies; the text says which).
  result<void> send(const client_id& to, bytes frame);

  // As bound, with the port that was picked.
  const std::vector<std::string>& endpoints() const noexcept;

 private:
  class loop;
  explicit router_socket(std::unique_ptr<loop> bound);
  std::unique_ptr<loop> loop_;
};

}  // namespace ebb::bus
