#include "bus/subscriber_socket.hpp"
#include "bus/curve_keys.hpp"
#include "bus/daemon_link.hpp"
#include "config/limits.hpp"
#include <utility>

namespace ebb::bus {
namespace {

constexpr std::size_t parts_of_event = 2;

result<void> subscribe(zmq::socket_t& socket, const std::vector<std::string>& topics) {
  if (topics.empty()) socket.set(zmq::sockopt::subscribe, "");
  for (const std::string& each : topics) {
    if (each.size() > limits::event_topic_bytes_max) {
      return fail(errc::too_large,
                  "a topic has at most " + std::to_string(limits::event_topic_bytes_max) + " bytes, not " + std::to_string(each.size()));
    }
    socket.set(zmq::sockopt::subscribe, each);
  }
  return {};
}

}  // namespace

subscriber_socket::subscriber_socket(std::unique_ptr<daemon_link> connected) : link_(std::move(connected)) {}
subscriber_socket::~subscriber_socket() = default;
subscriber_socket::subscriber_socket(subscriber_socket&&) noexcept = default;
subscriber_socket& subscriber_socket::operator=(subscriber_socket&&) noexcept = default;

result<subscriber_socket> subscriber_socket::connect(const std::string& address, std::chrono::milliseconds timeout,
                                                     const std::optional<curve_client_keys>& keys,
                                                     const std::vector<std::string>& topics) try {
  auto made = std::make_unique<daemon_link>(zmq::socket_type::sub, address);
  made->socket().set(zmq::sockopt::rcvhwm, limits::events_high_water);
  made->socket().set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(limits::event_bytes_max + curve_overhead_bytes));
  if (auto subscribed = subscribe(made->socket(), topics); !subscribed) return fail(subscribed.error());
  if (auto answered = made->connect(timeout, keys); !answered) return fail(answered.error());
  return subscriber_socket(std::move(made));
} catch (const std::exception& thrown) {
  return fail(errc::internal, "cannot connect to " + address + ": " + thrown.what());
}

result<published> subscriber_socket::receive(std::chrono::milliseconds timeout) try {
  auto parts = link_->receive(timeout);
  if (!parts) return fail(parts.error());
  if (parts->size() == parts_of_event) return published{std::move((*parts)[0]), std::move((*parts)[1])};
  return fail(errc::malformed,
              "what " + link_->address() + " sends are no events: messages of " + std::to_string(parts->size()) + " parts");
} catch (const std::exception& thrown) {
  return fail(errc::internal, std::string("cannot receive: ") + thrown.what());
}

}  // namespace ebb::bus
