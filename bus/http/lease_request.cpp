#include "bus/http/lease_request.hpp"
#include "bus/http/json_body.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <charconv>

namespace ebb::bus::http {
namespace {

constexpr range ttl{1, limits::lease_ttl_s_max};
constexpr range key_bytes{1, request_id_bytes_max};

}  // namespace

outcome<acquire_request> parse_acquire(std::string_view body, std::string_view key_header) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  acquire_request out;
  lease& wanted = out.wanted;
  wanted.action = "acquire";
  fields.take("owner", wanted.owner, {1, limits::lease_owner_bytes_max});
  fields.take("gpu", wanted.device);
  fields.take("mib", wanted.mib, {1});
  fields.take("min_mib", wanted.min_mib, {1});
  fields.take("ttl_s", wanted.ttl_s, ttl);
  fields.take("wait_s", wanted.wait_s, {0, limits::lease_wait_s_max});
  fields.take("pid", wanted.pid, {1, limits::pid_max});
  fields.take("idempotency_key", out.idempotency_key, key_bytes);
  fields.require("owner", !wanted.owner.empty(), "a text that says for whom the memory is");
  fields.require("gpu", wanted.device.has_value(), "the number of a card, as GET /v1/cards lists them");
  fields.require("mib", wanted.mib.has_value(), "a whole number from 1");
  if (wanted.mib && wanted.min_mib && *wanted.min_mib > *wanted.mib) fields.refuse("min_mib", "is more than `mib`; it is the least that is of use");
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  if (key_header.empty()) return out;
  if (key_header.size() > request_id_bytes_max || !is_valid_utf8(key_header)) {
    return refuse(400, "bad_value", "the header Idempotency-Key must be text of at most " + std::to_string(request_id_bytes_max) + " bytes", "Idempotency-Key");
  }
  if (!out.idempotency_key.empty() && out.idempotency_key != key_header) {
    return refuse(400, "bad_value", "the header Idempotency-Key and the field `idempotency_key` differ; send one of them", "idempotency_key");
  }
  out.idempotency_key = key_header;
  return out;
}

outcome<lease> parse_renew(std::string_view body) {
  lease wanted;
  wanted.action = "renew";
  if (body.empty()) return wanted;
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  fields.take("ttl_s", wanted.ttl_s, ttl);
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  return wanted;
}

outcome<std::uint64_t> parse_lease_id(std::string_view text) {
  std::uint64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec == std::errc{} && read.ptr == text.data() + text.size()) return id;
  return refuse(404, "unknown_lease", "there is no lease " + in_quotes(text) + "; leases have numbers, which GET /v1/vram/leases lists");
}

}  // namespace ebb::bus::http
