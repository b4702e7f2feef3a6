// model/jinja/token_cursor.hpp: the place in a template's tokens that a parser has come to, its first error, and how deep it has gone.
//
// The first error stays; after it every token is the end, so a parser that goes on ends by itself.
#pragma once
#include "config/limits.hpp"
#include "config/result.hpp"
#include "config/utf8.hpp"
#include "model/jinja/lexer.hpp"
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::model::jinja {

class token_cursor {
 protected:
  using kind = token::kind;
  using words = std::initializer_list<std::string_view>;

  explicit token_cursor(std::vector<token> tokens) : tokens_(std::move(tokens)) {}

  bool failed() const noexcept { return failure_.has_value(); }
  const std::optional<error>& failure() const noexcept { return failure_; }

  const token& now() const noexcept { return failure_ ? tokens_.back() : tokens_[position_]; }
  const token& ahead() const noexcept { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  void skip() noexcept {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool is_symbol(std::string_view symbol) const noexcept { return now().what == kind::symbol && now().words == symbol; }
  bool is_name(std::string_view name) const noexcept { return now().what == kind::name && now().words == name; }
  bool is_any_name(words names) const noexcept {
    return std::ranges::any_of(names, [&](std::string_view name) { return is_name(name); });
  }
  bool take_symbol(std::string_view symbol) { return is_symbol(symbol) ? (skip(), true) : false; }
  bool take_name(std::string_view name) { return is_name(name) ? (skip(), true) : false; }

  void fail_at(place at, errc code, const std::string& what) {
    if (!failure_) failure_ = error{code, "chat template, " + to_string(at) + ": " + what};
  }
  void fail_here(const std::string& what) { fail_at(now().at, errc::bad_value, what); }
  std::string found() const {
    switch (now().what) {
      case kind::end: return "the end of the template";
      case kind::block_end:
      case kind::output_end: return "the end of the tag";
      default: return in_quotes(now().words);
    }
  }
  void expect(kind what, std::string_view wanted) {
    if (now().what != what) return fail_here("expected " + std::string(wanted) + ", found " + found());
    skip();
  }
  void expect_symbol(std::string_view symbol) {
    if (!take_symbol(symbol)) fail_here("expected " + in_quotes(symbol) + ", found " + found());
  }
  std::string expect_name() {
    std::string name = now().words;
    expect(kind::name, "a name");
    return name;
  }
  void end_block() { expect(kind::block_end, "the end of the tag"); }

  // --- depth of the parser's own recursion
  class level {
   public:
    explicit level(token_cursor& of) : of_(of) {
      if (++of_.depth_ > limits::chat_syntax_depth_max) {
        of_.fail_at(of_.now().at, errc::too_large, "nested deeper than " + std::to_string(limits::chat_syntax_depth_max));
      }
    }
    ~level() { --of_.depth_; }

   private:
    token_cursor& of_;
  };

 private:
  std::vector<token> tokens_;  // the last is the end
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  std::optional<error> failure_;
};

}  // namespace ebb::model::jinja
