// bus/http/lease_request.hpp: the bodies of /v1/vram/leases.
#pragma once
#include "bus/http/problem.hpp"
#include "bus/messages.hpp"
#include <string>
#include <string_view>

namespace ebb::bus::http {

struct acquire_request {
  lease wanted;
  std::string idempotency_key;  // empty: none
};

// {"owner", "gpu", "mib", "min_mib"?, "ttl_s"?, "wait_s"?, "pid"?, "idempotency_key"?}; the key may come as a header instead. Errors: 400.
outcome<acquire_request> parse_acquire(std::string_view body, std::string_view key_header);

// {"ttl_s"?}, or no body. Errors: 400.
outcome<lease> parse_renew(std::string_view body);

// A part of the path. Errors: 404.
outcome<std::uint64_t> parse_lease_id(std::string_view text);

}  // namespace ebb::bus::http
