// Requests to and from bytes. The text form is bus/text_form.cpp's.
#include "bus/alternatives.hpp"
#include "bus/codec.hpp"
#include "bus/envelope.hpp"
#include "bus/field_reader.hpp"
#include "bus/field_writer.hpp"
#include "bus/text_form.hpp"
#include "bus/wire.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "config/nearest.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ebb::bus {
namespace {

using named_commands = alternatives<command>;

bool is_letter(std::byte first) {
  const char letter = static_cast<char>(first);
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
}

// The id, if the map has exactly one and it is well formed: enough to answer by, whatever else is wrong.
request_id usable_id(const wire::map& fields) {
  request_id id;
  const auto is_id = [](const wire::field& each) { return each.key == "id"; };
  if (std::count_if(fields.begin(), fields.end(), is_id) != 1) return id;
  take(std::find_if(fields.begin(), fields.end(), is_id)->content, any, id);
  return id;
}

template <class Command>
void check_whole(const Command&, field_reader&) {}

void check_whole(const generate& asked, field_reader& reader) {
  std::vector<std::string_view> given;
  if (!asked.prompt.empty()) given.push_back("prompt");
  if (!asked.ids.empty()) given.push_back("ids");
  if (!asked.messages.empty()) given.push_back("messages");
  if (given.empty()) reader.refuse(errc::missing_key, "prompt is missing; give it, or ids or messages instead");
  if (given.size() > 1) {
    reader.refuse(errc::bad_value, std::string(given[0]) + " and " + std::string(given[1]) + " are both given; give one of them");
  }
  if (asked.logprobs && !asked.stream) {
    reader.refuse(errc::bad_value, "logprobs come with the tokens, and stream is false; leave one of them out");
  }
}

// Which fields an action of `lease` has, and which of them must be there.
struct lease_action {
  std::string_view name;
  std::vector<std::string_view> required;
  std::vector<std::string_view> allowed;
};

const std::array<lease_action, 4>& lease_actions() {
  static const std::array<lease_action, 4> all{{
      {"acquire", {"owner", "device", "mib"}, {"min_mib", "ttl_s", "wait_s", "pid"}},
      {"renew", {"lease_id"}, {"ttl_s"}},
      {"release", {"lease_id"}, {}},
      {"list", {}, {}},
  }};
  return all;
}

void check_whole(const lease& asked, field_reader& reader) {
  const auto& actions = lease_actions();
  const auto action = std::find_if(actions.begin(), actions.end(), [&](const auto& each) { return each.name == asked.action; });
  if (action == actions.end()) {
    return reader.refuse(errc::bad_value, "action must be acquire, renew, release or list, not " + in_quotes(asked.action));
  }
  for_each_field(asked, [&](const auto& field, const auto& owner) {
    if (field.key == "action") return;
    const bool given = !is_left_out(owner.*field.member, field.when);
    const auto has = [&](const auto& keys) { return std::find(keys.begin(), keys.end(), field.key) != keys.end(); };
    const std::string name = std::string(action->name) + ": " + std::string(field.key);
    if (has(action->required) && !given) reader.refuse(errc::missing_key, name + " is missing; give it");
    if (given && !has(action->required) && !has(action->allowed)) reader.refuse(errc::unknown_key, name + " has no meaning here; leave it out");
  });
  if (asked.min_mib && asked.mib && *asked.min_mib > *asked.mib) {
    reader.refuse(errc::bad_value, "min_mib is " + std::to_string(*asked.min_mib) + ", more than mib, which is " + std::to_string(*asked.mib));
  }
}

template <class Command>
void read_command(Command command_read, field_reader& reader, request& into) {
  reader.name_owner(name_of<Command>);
  reader.read_all(command_read);
  check_whole(command_read, reader);
  reader.refuse_unknown_keys();
  into.command = std::move(command_read);
}

std::string no_such_command(std::string_view name) {
  const auto names = named_commands::names();
  std::string guess = did_you_mean(name, names);
  if (guess.empty()) {
    guess = "; the commands are " + std::string(names.front());
    for (std::size_t index = 1; index < names.size(); ++index) guess.append(", ").append(names[index]);
  }
  return "there is no command " + in_quotes(name) + guess;
}

result<request> read_request(const wire::map& fields) {
  request out;
  std::string name;
  field_reader reader("", fields, field_reader::strangers::refused);
  read_version(reader);
  reader.read("id", out.id);
  reader.read("cmd", name);
  const auto read_fields = [&](auto command_read) { read_command(std::move(command_read), reader, out); };
  if (!named_commands::visit_named(name, read_fields)) reader.refuse(errc::unknown_command, no_such_command(name));
  if (reader.wrong()) return fail(*reader.wrong());
  return out;
}

// A byte that msgpack takes for a small number is most often the first one of JSON, or of a text that begins with a blank.
std::string shown_root(bytes_view frame, const wire::value& root) {
  const auto first = std::to_integer<unsigned char>(frame.front());
  if (first >= 0x80) return "not " + describe(root);
  return "and this one begins with " + in_quotes(as_text(frame.first(1)));
}

tl::expected<request, refusal> decode_map(bytes_view frame) {
  const auto parsed = wire::parse(frame, "; send it re-encoded, or as token ids");
  if (!parsed) return tl::unexpected(refusal{{}, false, parsed.error()});
  const auto* fields = std::get_if<wire::map>(&parsed->root.held);
  if (fields == nullptr) {
    return tl::unexpected(refusal{
        {},
        false,
        {errc::malformed, "a frame must be a msgpack map, or text that begins with a letter, " + shown_root(frame, parsed->root)}});
  }
  if (parsed->trailing_bytes != 0) {
    return tl::unexpected(refusal{usable_id(*fields), false, {errc::malformed, trailing_text(parsed->trailing_bytes)}});
  }
  auto asked = read_request(*fields);
  if (!asked) return tl::unexpected(refusal{usable_id(*fields), false, std::move(asked.error())});
  return std::move(*asked);
}

}  // namespace

tl::expected<request, refusal> decode_request(bytes_view frame) {
  if (frame.empty()) return tl::unexpected(refusal{{}, false, {errc::malformed, "the frame is empty"}});
  const bool text = is_letter(frame.front());
  if (frame.size() > limits::message_bytes_max) {
    return tl::unexpected(refusal{{},
                                  text,
                                  {errc::too_large, "the frame has " + std::to_string(frame.size()) + " bytes; at most " +
                                                        std::to_string(limits::message_bytes_max) + " are taken"}});
  }
  return text ? parse_text(as_text(frame)) : decode_map(frame);
}

reply to_reply(refusal refused) { return {std::move(refused.id), std::move(refused.why)}; }

bytes encode_request(const request& asked) {
  EBB_ASSERT(!asked.text);
  EBB_ASSERT(!asked.id.empty());
  wire::writer out;
  std::visit(
      [&]<class Command>(const Command& command_sent) {
        write_envelope(out, asked.id, "cmd", name_of<Command>, count_fields(command_sent));
        write_fields(out, command_sent);
      },
      asked.command);
  return out.take();
}

}  // namespace ebb::bus
