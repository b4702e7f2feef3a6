// model/jinja/text.hpp: a string that remembers which of its bytes came from outside the template.
//
// A user's message may contain the very letters of a special token; only the template may mean one by them. So every byte is the
// template's own or foreign, and what is joined or cut keeps that byte by byte. What is computed from a text (upper, replace,
// tojson) is foreign as a whole as soon as one byte of it was.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ebb::model::jinja {

class text {
 public:
  text() = default;
  explicit text(std::string bytes, bool foreign = false) : bytes_(std::move(bytes)), marks_(foreign ? bytes_.size() : 0, foreign_mark) {}

  // `bytes` computed from `source`.
  static text derived(std::string bytes, const text& source) { return text(std::move(bytes), source.any_foreign()); }

  const std::string& bytes() const noexcept { return bytes_; }
  std::string_view view() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  bool is_foreign(std::size_t index) const noexcept { return !marks_.empty() && marks_[index] == foreign_mark; }
  bool any_foreign() const noexcept { return marks_.find(foreign_mark) != std::string::npos; }

  void append(const text& other);
  text cut(std::size_t begin, std::size_t size) const;  // Pre: begin <= size(). Ends at the end of the text at the latest.

 private:
  static constexpr char foreign_mark = 1;

  std::string bytes_;
  std::string marks_;  // one a byte, or empty: all the template's own
};

}  // namespace ebb::model::jinja
