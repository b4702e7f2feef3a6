// bus/http/connection.hpp: one client's connection, and whose it is at the moment.
#pragma once
#include "bus/file_descriptor.hpp"
#include "bus/http/peer.hpp"
#include <chrono>
#include <memory>
#include <string>

namespace ebb::bus::http {

enum class phase : std::uint8_t {
  head,      // the head of a request is being read; its deadline is http_head_timeout
  rest,      // between two requests; http_idle_timeout
  work,      // a worker's, which has deadlines of its own
  draining,  // answered for the last time: what the client still sends is thrown away; http_drain_timeout
};

// In phase `work` the worker's alone, but for `peer`; else the connection loop's.
struct connection {
  file_descriptor socket;
  std::string address;            // of the client
  std::string unread;             // read from the socket, not yet used
  std::shared_ptr<http::peer> peer = std::make_shared<http::peer>();  // of the request under way; a new one each
  http::phase phase = http::phase::head;
  std::chrono::steady_clock::time_point deadline;
};

// The whole head of a request, up to its empty line.
inline bool has_head(const std::string& unread) { return unread.find("\r\n\r\n") != std::string::npos; }

}  // namespace ebb::bus::http
