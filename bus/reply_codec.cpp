// Replies to and from bytes. The text form is bus/text_form.cpp's.
#include "bus/alternatives.hpp"
#include "bus/codec.hpp"
#include "bus/envelope.hpp"
#include "bus/field_reader.hpp"
#include "bus/field_writer.hpp"
#include "bus/text_form.hpp"
#include "bus/wire.hpp"
#include "config/utf8.hpp"
#include <string>
#include <utility>

namespace ebb::bus {
namespace {

using named_bodies = alternatives<decltype(reply::body)>;

bytes encode_map(const reply& answer) {
  wire::writer out;
  std::visit(
      [&]<class Body>(const Body& body) {
        write_envelope(out, answer.id, "type", name_of<Body>, 1 + count_fields(body));
        out.text("last");
        out.boolean(answer.last());
        write_fields(out, body);
      },
      answer.body);
  return out.take();
}

// Nil is the answer to a frame whose id could not be read.
void read_id(field_reader& reader, const wire::map& fields, request_id& into) {
  for (const wire::field& each : fields) {
    if (each.key == "id" && std::holds_alternative<std::monostate>(each.content.held)) return;
  }
  reader.read("id", into);
}

result<reply> read_reply(const wire::map& fields) {
  reply out;
  std::string name;
  field_reader reader("reply", fields);
  read_version(reader);
  read_id(reader, fields, out.id);
  reader.read("type", name);
  const auto read_body = [&](auto body) {
    reader.read_all(body);
    out.body = std::move(body);
  };
  if (!named_bodies::visit_named(name, read_body)) {
    reader.refuse(errc::bad_value, "type " + in_quotes(name) + " is not known; this client is older than the daemon");
  }
  if (reader.wrong()) return fail(*reader.wrong());
  return out;
}

}  // namespace

bytes encode_reply(const reply& answer, bool text) {
  if (!text) return encode_map(answer);
  const std::string lines = text_of(answer);
  const bytes_view view = as_bytes(lines);
  return {view.begin(), view.end()};
}

result<reply> decode_reply(bytes_view frame) {
  const auto parsed = parse_map(frame, "reply");
  if (!parsed) return fail(parsed.error());
  return read_reply(std::get<wire::map>(parsed->root.held));
}

}  // namespace ebb::bus
