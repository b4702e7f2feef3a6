#include "bus/http/body_reader.hpp"
#include "bus/http/text.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <charconv>

namespace ebb::bus::http {
namespace {

constexpr std::size_t size_line_max = 256;  // with extensions, which nobody uses

tl::unexpected<problem> no_chunk(std::string_view what) {
  return refuse(400, "malformed", "a chunk begins with its size in hexadecimal digits and ends with an empty line, not " + in_quotes(what.substr(0, 20)));
}

tl::unexpected<problem> too_large() {
  return refuse(413, "too_large", "the body has more than " + std::to_string(limits::http_body_bytes_max) + " bytes");
}

// Grows with what has arrived and never beyond what can come.
void make_room(std::string& into, std::size_t bytes, std::size_t most) {
  const std::size_t wanted = into.size() + bytes;
  if (wanted > into.capacity()) into.reserve(std::max(wanted, std::min(most, 2 * into.capacity())));
}

}  // namespace

outcome<bool> body_reader::take(std::string& unread, std::string& into) {
  std::size_t at = 0;
  const auto taken = [&](outcome<bool> what) {
    unread.erase(0, at);
    return what;
  };
  for (;;) {
    const auto rest = std::string_view(unread).substr(at);
    const auto line_end = rest.find("\r\n");
    switch (step_) {
      case step::done: return taken(true);
      case step::bytes: {
        const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest.size()));
        if (into.size() + now > limits::http_body_bytes_max) return taken(too_large());
        make_room(into, now, chunked_ ? limits::http_body_bytes_max : into.size() + static_cast<std::size_t>(left_));
        into.append(rest.substr(0, now));
        at += now;
        left_ -= now;
        if (left_ > 0) return taken(false);
        step_ = chunked_ ? step::bytes_end : step::done;
        break;
      }
      case step::bytes_end:
        if (rest.size() < 2 && (rest.empty() || rest[0] == '\r')) return taken(false);
        if (!rest.starts_with("\r\n")) return taken(no_chunk(rest));
        at += 2;
        step_ = step::size;
        break;
      case step::size: {
        if (line_end == std::string_view::npos && rest.size() <= size_line_max) return taken(false);
        const auto line = rest.substr(0, std::min(line_end, rest.size()));
        const auto digits = trimmed(line.substr(0, line.find(';')));
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), left_, 16);
        const bool has_digits = !digits.empty() && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
        if (line.size() > size_line_max || !has_digits || line.find_first_of("\r\n") != std::string_view::npos) return taken(no_chunk(line));
        if (read.ec != std::errc{} || left_ > limits::http_body_bytes_max) return taken(too_large());
        at += line_end + 2;
        step_ = left_ > 0 ? step::bytes : step::trailer;
        break;
      }
      case step::trailer:  // is read and thrown away
        if (trailer_ + std::min(line_end, rest.size()) > limits::http_head_bytes_max) return taken(refuse(400, "malformed", "what follows the last chunk does not end"));
        if (line_end == std::string_view::npos) return taken(false);
        at += line_end + 2;
        trailer_ += line_end + 2;
        if (line_end == 0) step_ = step::done;
        break;
    }
  }
}

}  // namespace ebb::bus::http
