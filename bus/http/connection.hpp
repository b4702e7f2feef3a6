// bus/http/connection.hpp: one client's connection, and whose it is at the moment.
#pragma once
#include "bus/file_descriptor.hpp"
#include "bus/http/body_reader.hpp"
#include "bus/http/peer.hpp"
#include "bus/http/request_head.hpp"
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ebb::bus::http {

enum class phase : std::uint8_t {
  head,      // the head of a request is being read; its deadline is http_head_timeout
  body,      // of a request that may be served; http_body_timeout
  rest,      // between two requests; http_idle_timeout
  work,      // a worker's, which has deadlines of its own
  draining,  // answered for the last time: what the client still sends is thrown away; http_drain_timeout
};

// In phase `work` the worker's alone, but for `peer`; else the connection loop's.
struct connection {
  file_descriptor socket;
  std::string address;            // of the client
  std::string unread;             // read from the socket, not yet used
  request_head head;              // of the request under way, as are the next
  std::optional<body_reader> arriving;  // while its body does
  std::string body;
  std::size_t body_charged = 0;   // of http_bodies_bytes_max
  bool body_whole = false;        // false with a head that has one: the request is refused without it
  std::shared_ptr<http::peer> peer = std::make_shared<http::peer>();  // of the request under way; a new one each
  http::phase phase = http::phase::head;
  std::chrono::steady_clock::time_point deadline;
};

}  // namespace ebb::bus::http
