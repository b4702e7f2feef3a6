// bus/http/body_reader.hpp: one request's body out of the bytes of a connection, as they come; never waits.
#pragma once
#include "bus/http/request_head.hpp"
#include <string>

namespace ebb::bus::http {

class body_reader {
 public:
  explicit body_reader(const request_head& of)
      : chunked_(of.chunked), left_(of.chunked ? 0 : of.body_bytes), step_(of.chunked ? step::size : of.has_body() ? step::bytes : step::done) {}

  // Takes from the front of `unread` what belongs to the body, up to the first byte of the next request, and puts what is content into `into`.
  // True: the body is whole. Errors: 400 (chunks that are none), 413 (more than limits::http_body_bytes_max).
  outcome<bool> take(std::string& unread, std::string& into);

 private:
  enum class step : std::uint8_t { size, bytes, bytes_end, trailer, done };

  bool chunked_;
  std::uint64_t left_;      // bytes of the body, or of the chunk under way
  std::size_t trailer_ = 0; // bytes of it so far
  step step_;
};

}  // namespace ebb::bus::http
