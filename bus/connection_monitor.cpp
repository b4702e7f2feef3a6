#include "bus/connection_monitor.hpp"
#include <cstring>
#include <string>

namespace ebb::bus {
namespace {

// One for each socket: the address of a live socket is unique in the process.
std::string address_for(const zmq::socket_t& watched) {
  return "inproc://monitor-" + std::to_string(reinterpret_cast<std::uintptr_t>(watched.handle()));
}

}  // namespace

connection_monitor::connection_monitor(zmq::context_t& context, zmq::socket_t& watched, int events)
    : watched_(watched), events_(context, zmq::socket_type::pair) {
  const std::string address = address_for(watched);
  if (zmq_socket_monitor(watched.handle(), address.c_str(), events) != 0) throw zmq::error_t();
  // No bound: ZeroMQ's I/O thread would wait for us where there is one. Connections come and go far slower than this is read.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(address);
}

connection_monitor::~connection_monitor() { zmq_socket_monitor(watched_.handle(), nullptr, 0); }

std::optional<connection_monitor::event> connection_monitor::next() {
  zmq::message_t described;
  if (!events_.recv(described, zmq::recv_flags::dontwait)) return std::nullopt;
  zmq::message_t endpoint;  // always follows, and is of no interest
  static_cast<void>(events_.recv(endpoint, zmq::recv_flags::dontwait));
  event out{};
  std::int32_t value = 0;
  std::memcpy(&out.what, described.data<char>(), sizeof(out.what));
  std::memcpy(&value, described.data<char>() + sizeof(out.what), sizeof(value));
  out.value = value;
  return out;
}

}  // namespace ebb::bus
