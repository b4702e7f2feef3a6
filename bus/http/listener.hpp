// bus/http/listener.hpp: the socket that connections come in at.
#pragma once
#include "bus/file_descriptor.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <string>

namespace ebb::bus::http {

struct listener {
  file_descriptor socket;    // listens, and does not block
  std::string address;       // as bound, an IPv6 one in brackets
  std::uint16_t port = 0;
  bool loopback = false;     // whether only this machine can reach it

  std::string url() const { return "http://" + address + ":" + std::to_string(port); }

  // `where` is "address:port", the address a number or a name; port 0 takes a free one. Errors: bad_value (no such address, or not one
  // of this machine), refused (the port is taken, or needs rights).
  static result<listener> open(const std::string& where);
};

}  // namespace ebb::bus::http
