#include "bus/http/connection_loop.hpp"
#include "bus/http/problem.hpp"
#include "bus/thread_signals.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace ebb::bus::http {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t read_bytes = 16u << 10;
constexpr int reads_per_turn = 16;  // of one connection, before the others are looked at
constexpr int large_body = 1 << 20;
constexpr std::chrono::milliseconds sweep_interval{250};  // deadlines are seconds

std::string address_of(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = {};
  if (from.ss_family == AF_INET6) ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, text, sizeof text);
  else ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(from).sin_addr, text, sizeof text);
  return text;
}

// What is there, up to one buffer: -1 nothing now, 0 the client has ended.
ssize_t read_some(int socket, std::array<char, read_bytes>& into) {
  for (;;) {
    const ssize_t got = ::recv(socket, into.data(), into.size(), 0);
    if (got >= 0) return got;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : 0;
  }
}

const char* reason_of(int status) {
  switch (status) {
    case 400: return "Bad Request";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 431: return "Request Header Fields Too Large";
    default: return "Service Unavailable";
  }
}

// Bytes of `unread` that are the head of a request with its empty line; 0: it is not whole.
std::size_t head_bytes(const std::string& unread) {
  const auto end = unread.find("\r\n\r\n");
  return end == std::string::npos ? 0 : end + 4;
}

}  // namespace

connection_loop::connection_loop(file_descriptor listening, handlers handle)
    : listening_(std::move(listening)), handle_(std::move(handle)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  EBB_ASSERT(epoll_.is_open());
  for (const int each : {listening_.get(), wake_.fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = each}};
    EBB_ASSERT(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, each, &event) == 0);
  }
}

void connection_loop::start() {
  EBB_ASSERT(!thread_.joinable());
  // By itself the allocator learns from the first large body to keep the place of the next, 64 MiB a thread.
  ::mallopt(M_MMAP_THRESHOLD, large_body);
  ::mallopt(M_TRIM_THRESHOLD, 2 * large_body);
  thread_ = std::thread([this] {
    block_signals();
    run();
  });
}

void connection_loop::give_back(connection& client, after what) {
  {
    const std::lock_guard lock(mutex_);
    given_back_.emplace_back(&client, what);
  }
  wake_.wake();
}

void connection_loop::close_doors() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  for (const auto& [socket, client] : connections_) client->peer->leave();
  wake_.wake();
}

void connection_loop::cut_off() {
  const std::lock_guard lock(mutex_);
  for (const auto& [socket, client] : connections_) ::shutdown(socket, SHUT_RDWR);
}

void connection_loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.wake();
  if (thread_.joinable()) thread_.join();
  connections_.clear();
}

std::size_t connection_loop::connection_count() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void connection_loop::run() noexcept {
  std::array<epoll_event, 256> events;
  auto next_sweep = clock::now() + sweep_interval;
  for (;;) {
    const int wait_ms = connections_.empty() && accepts_ && !large_body_went_ ? -1 : static_cast<int>(sweep_interval.count());
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
    wake_.take();
    take_given_back();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    for (int i = 0; i < n; ++i) {
      const int socket = events[static_cast<std::size_t>(i)].data.fd;
      if (socket == listening_.get()) accept_all();
      else if (socket != wake_.fd()) look_at(socket, events[static_cast<std::size_t>(i)].events);
    }
    if (clock::now() < next_sweep) continue;
    next_sweep = clock::now() + sweep_interval;
    end_overdue();
    trim();
    if (!std::exchange(accepts_, true)) accept_all();  // there were no descriptors left
  }
}

void connection_loop::take_given_back() {
  std::vector<std::pair<connection*, after>> all;
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    all.swap(given_back_);
    closing = closing_;
    if (closing) listening_ = file_descriptor();
  }
  std::vector<connection*> kept;
  for (const auto& [client, what] : all) {
    EBB_ASSERT(client->phase == phase::work);
    let_body_go(*client);
    if (what == after::drain) {
      ::shutdown(client->socket.get(), SHUT_WR);
      to_phase(*client, phase::draining);
    } else if (what == after::close || client->peer->left() || closing) {
      end(*client);
    } else {
      const std::lock_guard lock(mutex_);  // close_doors() looks at every peer
      client->peer = std::make_shared<peer>();
      kept.push_back(client);
    }
  }
  for (connection* client : kept) {
    to_phase(*client, client->unread.empty() ? phase::rest : phase::head);
    read_request(*client);
  }
}

void connection_loop::accept_all() {
  for (;;) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    file_descriptor socket(::accept4(listening_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        make_room();
        accepts_ = false;
      }
      return;
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connections_.size() >= limits::http_connections_max) make_room();
    adopt(std::move(socket), address_of(from));
  }
}

void connection_loop::adopt(file_descriptor socket, std::string address) {
  auto made = std::make_unique<connection>();
  connection& client = *made;
  client.socket = std::move(socket);
  client.address = std::move(address);
  watch(client, EPOLLIN, true);
  {
    const std::lock_guard lock(mutex_);
    connections_[client.socket.get()] = std::move(made);
  }
  if (connections_.size() > limits::http_connections_max) return refuse(client, {503, "busy", "too many connections; try again in a moment", {}});
  to_phase(client, phase::head);
}

void connection_loop::look_at(int socket, std::uint32_t events) {
  const auto found = connections_.find(socket);
  if (found == connections_.end()) return;  // ended by an earlier event of this turn
  connection& client = *found->second;
  switch (client.phase) {
    case phase::work:
      if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) client.peer->leave();
      return;
    case phase::draining: return read_away(client);
    case phase::body: return read_body(client);
    default: return read_request(client);
  }
}

void connection_loop::read_request(connection& client) {
  std::array<char, read_bytes> buffer;
  for (;;) {
    const std::size_t head = head_bytes(client.unread);
    if ((head == 0 ? client.unread.size() : head) > limits::http_head_bytes_max) {
      return refuse(client, {431, "too_large", "the request line and the headers have more than " + std::to_string(limits::http_head_bytes_max) + " bytes", {}});
    }
    if (head > 0) return take_head(client, head);
    const ssize_t got = read_some(client.socket.get(), buffer);
    if (got == 0) return end(client);
    if (got < 0) return;
    if (client.phase == phase::rest) to_phase(client, phase::head);
    client.unread.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void connection_loop::take_head(connection& client, std::size_t bytes) {
  auto head = http::read_head(std::string_view(client.unread).substr(0, bytes));
  if (!head) return refuse(client, head.error());
  client.unread.erase(0, bytes);
  client.head = *std::move(head);
  client.body_whole = !client.head.has_body();
  if (client.body_whole || !handle_.wants_body(client.head)) return hand_over(client);
  client.arriving.emplace(client.head);
  to_phase(client, phase::body);
  constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
  if (client.head.waits && client.unread.empty()) static_cast<void>(::send(client.socket.get(), go_on.data(), go_on.size(), MSG_NOSIGNAL));
  take_body(client);
  if (client.phase == phase::body) read_body(client);
}

void connection_loop::read_body(connection& client) {
  std::array<char, read_bytes> buffer;
  for (int turns = 0; turns < reads_per_turn && client.phase == phase::body; ++turns) {
    const ssize_t got = read_some(client.socket.get(), buffer);
    if (got == 0) return end(client);
    if (got < 0) return;
    client.unread.append(buffer.data(), static_cast<std::size_t>(got));
    take_body(client);
  }
}

void connection_loop::take_body(connection& client) {
  const auto whole = client.arriving->take(client.unread, client.body);
  if (!whole) return refuse(client, whole.error());
  if (!charge_body(client)) return refuse(client, {503, "busy", "too many large bodies are on their way; try again in a moment", {}});
  if (!*whole) return;
  client.body_whole = true;
  hand_over(client);
}

// What has arrived counts, not what was announced. False: there is no room for more.
bool connection_loop::charge_body(connection& client) {
  const std::size_t counted = std::max(client.body.capacity(), limits::http_body_bytes_free) - limits::http_body_bytes_free;
  EBB_ASSERT(counted >= client.body_charged);
  bodies_bytes_ += counted - client.body_charged;
  client.body_charged = counted;
  return bodies_bytes_ <= limits::http_bodies_bytes_max;
}

void connection_loop::let_body_go(connection& client) {
  EBB_ASSERT(bodies_bytes_ >= client.body_charged);
  bodies_bytes_ -= client.body_charged;
  large_body_went_ = large_body_went_ || client.body_charged >= std::size_t{large_body};
  client.body_charged = 0;
  client.body = {};
  client.arriving.reset();
  client.body_whole = false;
}

// What a large body and the work for it took is otherwise kept for the next one, by every thread that ever had one.
void connection_loop::trim() {
  if (std::exchange(large_body_went_, false)) ::malloc_trim(0);
}

void connection_loop::read_away(connection& client) {
  std::array<char, read_bytes> buffer;
  for (int turns = 0; turns < 16; ++turns) {
    const ssize_t got = read_some(client.socket.get(), buffer);
    if (got == 0) return end(client);
    if (got < 0) return;
  }
}

void connection_loop::hand_over(connection& client) {
  client.arriving.reset();
  to_phase(client, phase::work);
  if (handle_.begin(client)) return;
  refuse(client, {503, "busy", "all workers have a request; try again in a moment", {}});
}

void connection_loop::refuse(connection& client, const problem& why) {
  let_body_go(client);
  const std::string body = body_of(why);
  std::string head = "HTTP/1.1 " + std::to_string(why.status) + " " + reason_of(why.status) + "\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\nConnection: close\r\nCache-Control: no-store\r\n";
  if (why.status == 503) head += "Retry-After: " + std::to_string(limits::http_retry_after.count()) + "\r\n";
  head += "\r\n";
  const std::string all = head + body;
  static_cast<void>(::send(client.socket.get(), all.data(), all.size(), MSG_NOSIGNAL));  // a new connection has room for it
  ::shutdown(client.socket.get(), SHUT_WR);
  to_phase(client, phase::draining);
}

void connection_loop::to_phase(connection& client, phase next) {
  const auto now = clock::now();
  client.phase = next;
  switch (next) {
    case phase::head: client.deadline = now + limits::http_head_timeout; break;
    case phase::body: client.deadline = now + limits::http_body_timeout; break;
    case phase::rest: client.deadline = now + limits::http_idle_timeout; break;
    case phase::draining: client.deadline = now + limits::http_drain_timeout; break;
    case phase::work: client.deadline = clock::time_point::max(); break;
  }
  watch(client, next == phase::work ? EPOLLRDHUP | EPOLLONESHOT : EPOLLIN, false);
}

void connection_loop::watch(const connection& client, std::uint32_t events, bool first) {
  epoll_event event{.events = events, .data = {.fd = client.socket.get()}};
  ::epoll_ctl(epoll_.get(), first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, client.socket.get(), &event);
}

void connection_loop::end(connection& client) {
  let_body_go(client);
  const std::lock_guard lock(mutex_);
  connections_.erase(client.socket.get());
}

void connection_loop::end_overdue() {
  std::vector<connection*> overdue;
  for (const auto& [socket, client] : connections_) {
    if (client->deadline < clock::now()) overdue.push_back(client.get());
  }
  for (connection* each : overdue) {
    if (each->phase == phase::head && !each->unread.empty()) refuse(*each, {408, "timed_out", "the headers did not arrive whole in time", {}});
    else if (each->phase == phase::body) refuse(*each, {408, "timed_out", "the body did not arrive whole within " + std::to_string(limits::http_body_timeout.count()) + " s", {}});
    else end(*each);
  }
}

// The one longest at rest goes: its client connects again when it has something to ask. If none is at rest, the one whose request has been
// arriving for the longest.
void connection_loop::make_room() {
  const auto is_idle = [](const connection& of) { return of.phase == phase::rest || (of.phase == phase::head && of.unread.empty()); };
  connection* oldest = nullptr;
  for (const bool idle : {true, false}) {
    for (const auto& [socket, client] : connections_) {
      const bool meant = idle ? is_idle(*client) : client->phase == phase::head || client->phase == phase::body;
      if (meant && (oldest == nullptr || client->deadline < oldest->deadline)) oldest = client.get();
    }
    if (oldest != nullptr) return end(*oldest);
  }
}

}  // namespace ebb::bus::http
