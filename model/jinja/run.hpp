// model/jinja/run.hpp: what one rendering may still spend, and the first thing that went wrong in it.
//
// Errors stick: the first one stays, whoever goes on gets undefined values, and every loop looks at failed(). So expressions need no
// branch a part. The budget counts steps and bytes made; both bound time and memory, whatever the template does.
#pragma once
#include "config/limits.hpp"
#include "config/result.hpp"
#include "model/jinja/value.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ebb::model::jinja {

// Counted from 1; a column counts bytes.
struct place {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

inline std::string to_string(place at) { return "line " + std::to_string(at.line) + ", column " + std::to_string(at.column); }

class run {
 public:
  bool failed() const noexcept { return failure_.has_value(); }
  const error& failure() const noexcept { return *failure_; }
  void at(place where) noexcept { at_ = where; }

  // Always an undefined value, for `return`.
  value fail(std::string text) { return fail(errc::bad_value, std::move(text)); }
  value fail(errc code, std::string text) {
    if (!failure_) failure_ = error{code, "chat template, " + to_string(at_) + ": " + std::move(text)};
    return value();
  }

  // False, and failed, once the budget is used up.
  bool step(std::size_t count = 1) {
    if (count > steps_) fail(errc::too_large, "takes more than " + std::to_string(limits::chat_steps_max) + " steps");
    steps_ -= count > steps_ ? steps_ : count;
    return !failed();
  }
  // Before `count` bytes are looked at, or made and looked at.
  bool look(std::size_t count) { return step(1 + count / 64); }
  bool make(std::size_t count) {
    if (count > bytes_)
      fail(errc::too_large, "makes more than " + std::to_string(limits::chat_bytes_made_max) + " bytes of text and values");
    bytes_ -= count > bytes_ ? bytes_ : count;
    return look(count);
  }
  // Before `of` is walked through to its last part.
  bool walk(const value& of) { return step(weight(of, steps_ + 1)); }

  // A value that was built of others is handed on, unless it is nested too deep.
  value checked(value built) {
    if (built.depth() > limits::chat_value_depth_max) {
      return fail(errc::too_large, "lists and mappings are nested deeper than " + std::to_string(limits::chat_value_depth_max));
    }
    return built;
  }
  value list(std::vector<value> items) { return make(items.size() * sizeof(value)) ? checked(value::list(std::move(items))) : value(); }
  value tuple(std::vector<value> items) { return make(items.size() * sizeof(value)) ? checked(value::tuple(std::move(items))) : value(); }
  // Looking for keys that come again takes a step for each pair of them.
  value dict(std::vector<std::pair<value, value>> entries) {
    const std::size_t n = entries.size();
    return make(n * 2 * sizeof(value)) && step(n * (n + 1) / 16) ? checked(value::dict(std::move(entries))) : value();
  }

 private:
  std::optional<error> failure_;
  place at_;
  std::size_t steps_ = limits::chat_steps_max;
  std::size_t bytes_ = limits::chat_bytes_made_max;
};

}  // namespace ebb::model::jinja
