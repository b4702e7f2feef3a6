// bus/zap_handler.hpp: tells ZeroMQ which clients may finish the CURVE handshake (ZAP, ZeroMQ RFC 27).
//
// ZeroMQ asks at an address of the context, once for each handshake. While nobody listens there it lets every client in that has
// the daemon's public key: so this is made before an endpoint with CURVE is bound, and lives until that is closed.
#pragma once
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>
#include <zmq.hpp>

namespace ebb::bus {

class zap_handler {
 public:
  // `clients`: the public keys that may connect. Throws zmq::error_t. One for a context; for the thread of its sockets.
  zap_handler(zmq::context_t& context, const std::vector<std::string>& clients);

  // To poll for reading.
  void* handle() noexcept { return asked_.handle(); }

  // Answers every handshake that waits. Never waits itself.
  void answer();

 private:
  bool may_connect(const std::vector<zmq::message_t>& question) const;

  std::unordered_set<std::string> clients_;  // as 32 bytes
  zmq::socket_t asked_;
};

}  // namespace ebb::bus
