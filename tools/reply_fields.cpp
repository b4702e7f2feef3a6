#include "tools/reply_fields.hpp"
#include "bus/codec.hpp"
#include "bus/to_json.hpp"
#include <algorithm>

namespace ebb::tools {
namespace {

bool is_text(bus::bytes_view frame) {
  const char first = frame.empty() ? '\0' : static_cast<char>(frame.front());
  return (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z');
}

void collect(const nlohmann::ordered_json& what, const std::string& path, std::map<std::string, std::string>& into) {
  if (!what.is_structured()) {
    into[path] = bus::to_line(what);
    return;
  }
  const auto below = [&](const std::string& name) { return path.empty() ? name : path + "/" + name; };
  std::size_t number = 0;
  for (const auto& [key, value] : what.items()) collect(value, below(what.is_array() ? std::to_string(number++) : key), into);
}

// The next word of a line, and what is in quotes as one; both are cut off.
std::string_view take_word(std::string_view& line) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < line.size() && (quoted || line[end] != ' '); ++end) {
    if (line[end] == '\\') ++end;
    else if (line[end] == '"') quoted = !quoted;
  }
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(line.size(), end + 1));
  return word;
}

// "VRAM device=0 took_ms=1.5": the words by their keys.
void collect_line(std::string_view line, const std::string& path, std::map<std::string, std::string>& into) {
  if (line.starts_with("ERR ")) {
    into[path] = std::string(line);
    return;
  }
  for (std::size_t number = 0; !line.empty(); ++number) {
    const std::string_view word = take_word(line);
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) into[path + "/" + std::to_string(number)] = std::string(word);
    else into[path + "/" + std::string(word.substr(0, equals))] = std::string(word.substr(equals + 1));
  }
}

read_frame read_text(std::string_view text) {
  read_frame out{.text = true, .id = {}, .type = std::string(text.substr(0, text.find(' '))), .last = true, .fields = {}};
  for (std::size_t number = 0; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    collect_line(text.substr(0, end), "line " + std::to_string(number), out.fields);
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

}  // namespace

result<read_frame> read_reply_frame(bus::bytes_view frame) {
  if (is_text(frame)) return read_text(bus::as_text(frame));
  const auto reply = bus::decode_reply(frame);
  if (!reply) return fail(reply.error());
  const auto json = to_json(*reply);
  read_frame out{.text = false, .id = reply->id, .type = json.at("type").get<std::string>(), .last = reply->last(), .fields = {}};
  collect(json, "", out.fields);
  return out;
}

std::string_view field_name(std::string_view path) noexcept {
  const auto is_number = [](std::string_view part) { return part.find_first_not_of("0123456789") == std::string_view::npos; };
  for (;;) {
    const auto slash = path.rfind('/');
    const std::string_view part = slash == std::string_view::npos ? path : path.substr(slash + 1);
    if (slash == std::string_view::npos || !is_number(part)) return part;
    path = path.substr(0, slash);
  }
}

}  // namespace ebb::tools
