#include "bus/http/call.hpp"
#include "config/limits.hpp"
#include <utility>

namespace ebb::bus::http {

call::call(command_port& port, std::shared_ptr<peer> whose)
    : port_(port), peer_(std::move(whose)), replies_(limits::http_replies_queued_max), id_(port.join([this](const reply& what) { replies_.put(what); })) {
  if (peer_) peer_->when_left([this] { replies_.close(); });
}

call::~call() {
  if (peer_) peer_->when_left({});
  port_.leave(id_);
}

void call::submit(request_id id, command asked) { port_.submit(id_, {std::move(id), false, std::move(asked)}); }

result<reply> call::next(std::chrono::steady_clock::duration patience) {
  auto answer = replies_.take(std::chrono::steady_clock::now() + patience);
  if (answer) return *std::move(answer);
  if (replies_.overrun()) return fail(errc::busy, "the answer comes faster than it is read; it was cancelled");
  if (replies_.closed()) return fail(errc::cancelled, "the client has left, or the daemon is stopping");
  return fail(errc::timed_out, "the daemon has not answered in time; try again");
}

}  // namespace ebb::bus::http
