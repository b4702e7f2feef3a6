// model/stop_matcher.hpp: ends a streamed text at the first of several stop strings.
//
// The stop string that is complete first counts; of several complete at the same byte the longest. So the text let through does
// not depend on how it was cut. What might be the beginning of a stop string is held back, which is less than the longest.
#pragma once
#include "config/result.hpp"
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model {

class stop_matcher {
 public:
  // Errors: bad_value: more than limits::stop_strings_max, one that is empty, longer than limits::stop_bytes_max or not UTF-8
  // (it could split a character).
  static result<stop_matcher> make(std::vector<std::string> stops);

  // The text that is safe to emit now. What follows a match, and the match itself, is dropped; so is all that is pushed later.
  std::string push(std::string_view text);

  // Has a stop string been seen?
  bool matched() const noexcept { return matched_; }

  // The text still held back, when no more comes.
  std::string finish();

 private:
  // The automaton of Knuth, Morris and Pratt: how much of `text` the bytes seen so far end with.
  struct stop_string {
    explicit stop_string(std::string text);
    void advance(char byte) noexcept;
    bool complete() const noexcept { return seen_bytes == text.size(); }

    std::string text;
    std::vector<std::size_t> border;  // [i] longest proper prefix of text[0, i] that also ends it
    std::size_t seen_bytes = 0;
  };

  explicit stop_matcher(std::vector<std::string> stops);

  std::size_t complete_bytes() const noexcept;
  std::size_t held_bytes() const noexcept;

  std::vector<stop_string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace ebb::model
