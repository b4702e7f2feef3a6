// Events to and from bytes.
#include "bus/alternatives.hpp"
#include "bus/envelope.hpp"
#include "bus/event_fields.hpp"
#include "bus/field_reader.hpp"
#include "bus/field_writer.hpp"
#include "bus/wire.hpp"
#include "config/utf8.hpp"

namespace ebb::bus {

std::string_view name_of_event(const event_body& body) {
  return std::visit([]<class Body>(const Body&) { return name_of<Body>; }, body);
}

bytes encode_event(const event& what) {
  wire::writer out;
  std::visit(
      [&]<class Body>(const Body& body) {
        out.map(4 + count_fields(body));
        out.text("v");
        out.whole(protocol_version);
        out.text("event");
        out.text(name_of<Body>);
        out.text("sequence");
        put(out, what.sequence);
        out.text("unix_ms");
        put(out, what.unix_ms);
        write_fields(out, body);
      },
      what.body);
  return out.take();
}

result<event> decode_event(bytes_view frame) {
  const auto parsed = parse_map(frame, "event");
  if (!parsed) return fail(parsed.error());
  event out;
  std::string name;
  field_reader reader("event", std::get<wire::map>(parsed->root.held));
  read_version(reader);
  reader.read("event", name);
  reader.read("sequence", out.sequence);
  reader.read("unix_ms", out.unix_ms);
  const auto read_body = [&](auto body) {
    reader.read_all(body);
    out.body = std::move(body);
  };
  if (!alternatives<event_body>::visit_named(name, read_body)) {
    reader.refuse(errc::bad_value, "event " + in_quotes(name) + " is not known; this client is older than the daemon");
  }
  if (reader.wrong()) return fail(*reader.wrong());
  return out;
}

}  // namespace ebb::bus
