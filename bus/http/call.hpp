// bus/http/call.hpp: the client of the bus that one HTTP request is: it asks, waits for replies, and leaves when it is destroyed.
#pragma once
#include "bus/command_port.hpp"
#include "bus/http/inbox.hpp"
#include "bus/http/peer.hpp"
#include "config/result.hpp"
#include <chrono>
#include <memory>

namespace ebb::bus::http {

class call {
 public:
  // `whose`: with whose end it waits no longer; null: it waits all the same, and the caller has another call that does.
  call(command_port& port, std::shared_ptr<peer> whose);
  ~call();
  call(const call&) = delete;
  call& operator=(const call&) = delete;

  void submit(request_id id, command asked);

  // The next reply to any of its requests. Errors: cancelled (the client has left, or the service stops), timed_out, busy (the client
  // reads too slowly).
  result<reply> next(std::chrono::steady_clock::duration patience);

  // For commands with one reply: asks, and gives it. Errors: those of next(), and those of the daemon.
  template <class Body>
  result<Body> ask(command asked, std::chrono::steady_clock::duration patience) {
    submit({++asked_}, std::move(asked));
    auto answer = next(patience);
    if (!answer) return fail(answer.error());
    if (const auto* why = std::get_if<error>(&answer->body)) return fail(*why);
    if (auto* body = std::get_if<Body>(&answer->body)) return std::move(*body);
    return fail(errc::internal, "the daemon answered another question than was asked");
  }

 private:
  command_port& port_;
  std::shared_ptr<peer> peer_;
  inbox<reply> replies_;
  client_id id_;
  std::uint64_t asked_ = 0;
};

}  // namespace ebb::bus::http
