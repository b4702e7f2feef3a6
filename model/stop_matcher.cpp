#include "model/stop_matcher.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <utility>

namespace ebb::model {
namespace {

result<void> check_stop(std::size_t index, const std::string& stop) {
  const std::string name = "stop string " + std::to_string(index);
  if (stop.empty()) return fail(errc::bad_value, name + " is empty and would end every answer at once; leave it out.");
  if (stop.size() > limits::stop_bytes_max) {
    return fail(errc::bad_value, name + " has " + std::to_string(stop.size()) + " bytes; at most " +
                                     std::to_string(limits::stop_bytes_max) + " are allowed.");
  }
  if (!is_valid_utf8(stop)) {
    return fail(errc::bad_value, name + " is not valid UTF-8, as all text of an answer is, so it could never match.");
  }
  return {};
}

}  // namespace

stop_matcher::stop_string::stop_string(std::string wanted) : text(std::move(wanted)), border(text.size() + 1, 0) {
  for (std::size_t size = 2; size <= text.size(); ++size) {
    std::size_t known = border[size - 1];
    while (known > 0 && text[known] != text[size - 1]) known = border[known];
    border[size] = text[known] == text[size - 1] ? known + 1 : 0;
  }
}

// Pre: not complete.
void stop_matcher::stop_string::advance(char byte) noexcept {
  while (seen_bytes > 0 && text[seen_bytes] != byte) seen_bytes = border[seen_bytes];
  if (text[seen_bytes] == byte) ++seen_bytes;
}

result<stop_matcher> stop_matcher::make(std::vector<std::string> stops) {
  if (stops.size() > limits::stop_strings_max) {
    return fail(errc::bad_value, "there are " + std::to_string(stops.size()) + " stop strings; at most " +
                                     std::to_string(limits::stop_strings_max) + " are allowed.");
  }
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (auto ok = check_stop(i, stops[i]); !ok) return fail(std::move(ok.error()));
  }
  return stop_matcher(std::move(stops));
}

stop_matcher::stop_matcher(std::vector<std::string> stops) {
  stops_.reserve(stops.size());
  for (std::string& stop : stops) stops_.emplace_back(std::move(stop));
}

std::string stop_matcher::push(std::string_view text) {
  if (matched_) return {};
  for (const char byte : text) {
    held_ += byte;
    for (stop_string& stop : stops_) stop.advance(byte);
    if (const std::size_t size_bytes = complete_bytes(); size_bytes > 0) {
      matched_ = true;
      held_.resize(held_.size() - size_bytes);
      return finish();
    }
  }
  std::string safe = held_.substr(0, held_.size() - held_bytes());
  held_.erase(0, safe.size());
  return safe;
}

std::string stop_matcher::finish() { return std::exchange(held_, {}); }

// Of the longest stop string that has been completed by the last byte; 0 if none has.
std::size_t stop_matcher::complete_bytes() const noexcept {
  std::size_t longest = 0;
  for (const stop_string& stop : stops_) {
    if (stop.complete()) longest = std::max(longest, stop.text.size());
  }
  return longest;
}

// The longest end of the text that begins a stop string.
std::size_t stop_matcher::held_bytes() const noexcept {
  std::size_t longest = 0;
  for (const stop_string& stop : stops_) longest = std::max(longest, stop.seen_bytes);
  return longest;
}

}  // namespace ebb::model
