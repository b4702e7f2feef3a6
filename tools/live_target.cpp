#include "tools/live_target.hpp"
#include "bus/codec.hpp"
#include "config/limits.hpp"
#include <variant>
#include <thread>

namespace ebb::tools {
namespace {

constexpr std::chrono::milliseconds connect_timeout{2000};
constexpr std::chrono::milliseconds pause{1};  // between two looks at all sockets; a token takes longer

// A lease ends with its process. That of the recording is gone, or its number is another's by now, and so it is left out.
bus::bytes without_process(bus::bytes_view frame) {
  auto asked = bus::decode_request(frame);
  auto* lease = asked ? std::get_if<bus::lease>(&asked->command) : nullptr;
  if (lease == nullptr || !lease->pid) return {frame.begin(), frame.end()};
  lease->pid.reset();
  return bus::encode_request(*asked);
}

}  // namespace

result<void> live_target::take(const bus::client_id& from, bus::bytes_view frame) {
  auto known = sockets_.find(from);
  if (known == sockets_.end()) {
    auto connected = bus::client_socket::connect(endpoint_, connect_timeout, keys_);
    if (!connected) return fail(connected.error());
    known = sockets_.emplace(from, std::move(*connected)).first;
  }
  return known->second.send(without_process(frame));
}

bool live_target::run_once() {
  const auto silent_until = std::chrono::steady_clock::now() + limits::replay_silence;
  while (std::chrono::steady_clock::now() < silent_until && !sockets_.empty()) {
    for (auto& [client, socket] : sockets_) {
      if (const auto frame = socket.receive(std::chrono::milliseconds(0))) {
        sink_(client, *frame);
        return true;
      }
    }
    std::this_thread::sleep_for(pause);
  }
  return false;
}

}  // namespace ebb::tools
