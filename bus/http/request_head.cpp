#include "bus/http/request_head.hpp"
#include "bus/http/text.hpp"
#include "config/utf8.hpp"
#include <charconv>
#include <limits>

namespace ebb::bus::http {
namespace {

constexpr std::string_view line_end = "\r\n";

tl::unexpected<problem> malformed(std::string text) { return refuse(400, "malformed", std::move(text)); }

bool is_token(std::string_view text) {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  for (const char each : text) {
    const bool letter = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || (each >= '0' && each <= '9');
    if (!letter && marks.find(each) == std::string_view::npos) return false;
  }
  return !text.empty();
}

bool has_control(std::string_view text) {
  for (const char each : text) {
    if ((static_cast<unsigned char>(each) < 0x20 && each != '\t') || each == 0x7f) return true;
  }
  return false;
}

bool read_request_line(std::string_view line, request_head& into) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || last == first || has_control(line)) return false;
  into.method = line.substr(0, first);
  into.target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  into.old = version == "HTTP/1.0";
  return is_token(into.method) && !into.target.empty() && into.target.find_first_of(" \t") == std::string::npos && (into.old || version == "HTTP/1.1");
}

// Of these a second one would be another request, or another sender.
bool may_repeat(std::string_view name) {
  for (const char* each : {"host", "content-length", "transfer-encoding", "content-type", "content-encoding", "expect", "origin", "authorization", "x-api-key"}) {
    if (name == each) return false;
  }
  return true;
}

outcome<void> read_header(std::string_view line, request_head& into) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return malformed("a header is \"Name: value\", with nothing between the name and the colon, not " + in_quotes(line.substr(0, 80)));
  }
  const std::string name = lower(line.substr(0, colon));
  const auto value = trimmed(line.substr(colon + 1));
  if (has_control(value)) return malformed("the header " + in_quotes(name.substr(0, 80)) + " has a control character");
  const auto [held, is_new] = into.headers.emplace(name, value);
  if (is_new) return {};
  if (!may_repeat(name)) return malformed("there is more than one header " + in_quotes(name));
  if (name == "connection") held->second.append(", ").append(value);
  return {};
}

outcome<void> read_framing(request_head& of) {
  const auto value = [&](const char* name) {
    const auto found = of.headers.find(name);
    return found == of.headers.end() ? nullptr : &found->second;
  };
  if (value("host") == nullptr && !of.old) return malformed("there is no Host, which HTTP/1.1 asks for");
  const std::string* length = value("content-length");
  if (const std::string* transfer = value("transfer-encoding"); transfer != nullptr) {
    if (length != nullptr || of.old || lower(*transfer) != "chunked") return malformed("a body has either a Content-Length or \"Transfer-Encoding: chunked\"");
    of.chunked = true;
  }
  if (length != nullptr) {
    if (length->empty() || length->find_first_not_of("0123456789") != std::string::npos) return malformed("Content-Length " + in_quotes(length->substr(0, 80)) + " is no number");
    const auto read = std::from_chars(length->data(), length->data() + length->size(), of.body_bytes);
    if (read.ec != std::errc{}) of.body_bytes = std::numeric_limits<std::uint64_t>::max();
  }
  const std::string* connection = value("connection");
  const bool keeps = connection != nullptr && lists(*connection, "keep-alive");
  of.closes = (connection != nullptr && lists(*connection, "close")) || (of.old && !keeps);
  const std::string* expect = value("expect");
  of.waits = !of.old && expect != nullptr && lower(*expect) == "100-continue";
  return {};
}

}  // namespace

outcome<request_head> read_head(std::string_view text) {
  request_head out;
  bool first = true;
  for (;;) {
    const auto end = text.find(line_end);
    if (end == std::string_view::npos) return malformed("the head of the request has no end");
    const auto line = text.substr(0, end);
    text.remove_prefix(end + line_end.size());
    if (line.empty() && !first) break;
    if (std::exchange(first, false)) {
      if (!read_request_line(line, out)) return malformed("the request is no HTTP/1.1 that is understood here");
    } else if (auto read = read_header(line, out); !read) {
      return tl::unexpected(read.error());
    }
  }
  if (auto read = read_framing(out); !read) return tl::unexpected(read.error());
  return out;
}

}  // namespace ebb::bus::http
