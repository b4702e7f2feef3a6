#include "bus/http/vram_request.hpp"
#include "bus/http/json_body.hpp"

namespace ebb::bus::http {

outcome<vram> parse_vram(std::string_view body) {
  const auto object = parse_object(body);
  if (!object) return tl::unexpected(object.error());
  json_fields fields(*object);
  vram wanted;
  fields.take_or_null("reserve_mib", wanted.reserve_mib);
  fields.take("gpu", wanted.device);
  fields.refuse_unknown_keys();
  if (fields.wrong()) return tl::unexpected(*fields.wrong());
  return wanted;
}

}  // namespace ebb::bus::http
