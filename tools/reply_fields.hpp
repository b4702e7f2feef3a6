// tools/reply_fields.hpp: a reply as its single values, to be compared one by one.
#pragma once
#include "bus/bytes.hpp"
#include "bus/messages.hpp"
#include "config/result.hpp"
#include <map>
#include <string>
#include <string_view>

namespace ebb::tools {

// A frame to a client, read. A text answer's body cannot be: it has no place in `reply`, only in `fields`.
struct read_frame {
  bool text = false;
  bus::request_id id;                         // none in text
  std::string type;                           // "token", "done", ...; of a text answer its first word
  bool last = true;
  std::map<std::string, std::string> fields;  // by path, such as "cards/0/took_ms"; values as JSON or as the words of the text
};

// Errors: those of bus::decode_reply.
result<read_frame> read_reply_frame(bus::bytes_view frame);

// The name of the field at the end of a path: "took_ms".
std::string_view field_name(std::string_view path) noexcept;

}  // namespace ebb::tools
