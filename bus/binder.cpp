#include "bus/binder.hpp"
#include "bus/curve_keys.hpp"
#include "bus/endpoint.hpp"
#include "bus/ipc_listener.hpp"
#include "config/limits.hpp"
#include <unistd.h>
#include <utility>

namespace ebb::bus {

binder::binder(zmq::context_t& context, zmq::socket_t& socket, binding_options options) : socket_(socket), options_(std::move(options)) {
  if (options_.keys) handshakes_.emplace(context, options_.keys->clients);
  demand_nothing();
}

result<void> binder::bind(const std::string& text) {
  const auto where = parse_endpoint(text);
  if (!where) return fail(where.error());
  const auto* tcp = std::get_if<tcp_endpoint>(&*where);
  if (tcp != nullptr && !is_loopback(*tcp) && !options_.keys) {
    return fail(errc::refused, "endpoint " + text +
                                   ": without [bus] curve_keys only 127.0.0.1 and [::1] may be listened on; make keys with "
                                   "`ebb keys server FILE`, or use a tunnel (ssh -L) for other machines");
  }
  auto bound = tcp != nullptr ? bind_tcp(tcp->host, text) : bind_ipc(std::get<ipc_endpoint>(*where).path, text);
  if (bound) endpoints_.push_back(socket_.get(zmq::sockopt::last_endpoint));
  return bound;
}

result<void> binder::bind_ipc(const std::filesystem::path& path, const std::string& text) {
  auto listener = listen_privately(path, options_.setting);
  if (!listener) return fail(listener.error());
  socket_files_.push_back(path);
  socket_.set(zmq::sockopt::use_fd, listener->get());
  socket_.bind(text);
  listener->release();  // ZeroMQ closes it
  socket_.set(zmq::sockopt::use_fd, -1);
  return {};
}

result<void> binder::bind_tcp(const std::string& host, const std::string& text) {
  socket_.set(zmq::sockopt::ipv6, host.starts_with('['));
  socket_.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(limits::heartbeat_interval.count()));
  socket_.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(limits::heartbeat_timeout.count()));
  if (options_.keys) demand_keys();
  result<void> bound;
  try {
    socket_.bind(text);
  } catch (const zmq::error_t& thrown) {
    bound = fail(errc::refused, "endpoint " + text + ": " + thrown.what() + "; choose another port in " + options_.setting);
  }
  socket_.set(zmq::sockopt::heartbeat_ivl, 0);
  demand_nothing();
  return bound;
}

void binder::demand_keys() {
  socket_.set(zmq::sockopt::curve_secretkey, options_.keys->secret_key);
  socket_.set(zmq::sockopt::curve_server, true);
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options_.message_bytes_max + curve_overhead_bytes));
}

void binder::demand_nothing() {
  socket_.set(zmq::sockopt::curve_server, false);  // which also means: no CURVE
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options_.message_bytes_max));
}

void binder::remove_files() {
  for (const auto& path : socket_files_) ::unlink(path.c_str());
  socket_files_.clear();
}

}  // namespace ebb::bus
