#include "bus/http/timed_stream.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/socket.h>

namespace ebb::bus::http {
namespace {

constexpr std::size_t gathered_max = 64u << 10;

// Whether it is ready for that before the time.
bool wait_for(int socket, short what, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{socket, what, 0};
    const int n = ::poll(&ready, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

}  // namespace

ssize_t timed_stream::read(char* into, size_t size) {
  const std::size_t taken = std::min(size, head_.size() - taken_);
  std::copy_n(head_.data() + taken_, taken, into);
  taken_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t timed_stream::write(const char* from, size_t size) {
  if (broken_) return -1;
  unsent_.append(from, size);
  if (unsent_.size() >= gathered_max && !flush()) return -1;
  return static_cast<ssize_t>(size);
}

bool timed_stream::flush() {
  std::size_t sent = 0;
  while (!broken_ && sent < unsent_.size()) {
    const ssize_t taken = ::send(socket_, unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL);
    if (taken > 0) sent += static_cast<std::size_t>(taken);
    else if (errno == EAGAIN || errno == EWOULDBLOCK) broken_ = !wait_for(socket_, POLLOUT, std::chrono::steady_clock::now() + limits::http_stall_timeout);
    else if (errno != EINTR) broken_ = true;
  }
  unsent_.clear();
  return !broken_;
}

void timed_stream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip = peer_address_;
  port = 0;
}

void timed_stream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace ebb::bus::http
