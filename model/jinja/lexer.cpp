#include "model/jinja/lexer.hpp"
#include "config/utf8.hpp"
#include "model/jinja/letters.hpp"
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

namespace ebb::model::jinja {
namespace {

using kind = token::kind;

std::string with_plain_newlines(std::string_view source) {
  std::string out;
  for (std::size_t index = 0; index < source.size(); ++index) {
    const bool pair = source[index] == '\r' && index + 1 < source.size() && source[index + 1] == '\n';
    if (!pair) out += source[index] == '\r' ? '\n' : source[index];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class lexer {
 public:
  explicit lexer(std::string source) : source_(std::move(source)) {}

  result<std::vector<token>> cut() {
    while (!failure_ && position_ < source_.size()) read_text();
    if (failure_) return fail(*std::move(failure_));
    add(kind::end, "");
    return std::move(tokens_);
  }

 private:
  static constexpr std::array<std::string_view, 5> long_symbols = {"//", "**", "==", "!=", "<="};

  std::string_view rest() const noexcept { return std::string_view(source_).substr(position_); }
  bool next_is(std::string_view what) const noexcept { return rest().starts_with(what); }

  void advance(std::size_t count) {
    for (; count > 0; --count, ++position_) {
      at_.column += 1;
      if (source_[position_] == '\n') at_ = {at_.line + 1, 1};
    }
  }

  void fail_here(const std::string& what) {
    if (!failure_) failure_ = error{errc::bad_value, "chat template, " + to_string(at_) + ": " + what};
  }

  token& add(kind what, std::string words) {
    tokens_.push_back({what, at_, std::move(words), 0, 0.0});
    return tokens_.back();
  }

  void add_text(std::string_view words) {
    if (!words.empty()) add(kind::text, std::string(words));
  }

  // Text up to the next tag, and that tag.
  void read_text() {
    std::size_t begin = 0;
    const std::string_view all = rest();
    for (begin = all.find('{'); begin != std::string_view::npos; begin = all.find('{', begin + 1)) {
      const char next = begin + 1 < all.size() ? all[begin + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (begin == std::string_view::npos) {
      add_text(all);
      position_ = source_.size();
      return;
    }
    const char tag = all[begin + 1];
    const char sign = begin + 2 < all.size() && (all[begin + 2] == '-' || (all[begin + 2] == '+' && tag != '{')) ? all[begin + 2] : '\0';
    add_text(before_tag(all.substr(0, begin), sign, tag));
    advance(begin);
    read_tag(tag, sign);
  }

  std::string_view before_tag(std::string_view words, char sign, char tag) const noexcept {
    if (sign == '-') return words.substr(0, words.size() - count_trailing(words, is_space));
    if (sign == '+' || tag == '{') return words;
    const std::size_t newline = words.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const bool line_begins = line > 0 || line_starting_;
    return line_begins && words.find_first_not_of(" \t", line) == std::string_view::npos ? words.substr(0, line) : words;
  }

  void read_tag(char tag, char sign) {
    const std::size_t head = sign ? 3 : 2;
    if (tag == '#') return skip_comment(head);
    if (tag == '%' && read_raw(head)) return;
    add(tag == '{' ? kind::output_begin : kind::block_begin, source_.substr(position_, head));
    advance(head);
    depth_ = 0;
    while (!failure_ && !read_tag_end(tag == '{' ? '}' : '%')) {
      if (position_ >= source_.size()) return fail_here("the template ends inside a tag");
      read_token();
    }
  }

  // The end of a tag `word` with what white space it takes with it.
  void finish_tag(std::size_t size, bool takes_all, bool takes_newline) {
    const std::size_t begin = position_;
    advance(size);
    if (takes_all) {
      advance(count_leading(rest(), is_space));
    } else if (takes_newline && next_is("\n")) {
      advance(1);
    }
    line_starting_ = position_ > begin && source_[position_ - 1] == '\n';
  }

  bool read_tag_end(char closing) {
    if (depth_ > 0) return false;
    const std::string end = std::string(1, closing) + "}";
    const bool is_block = closing == '%';
    const bool minus = next_is("-" + end), plus = is_block && next_is("+" + end);
    if (!minus && !plus && !next_is(end)) return false;
    add(is_block ? kind::block_end : kind::output_end, end);
    finish_tag(end.size() + (minus || plus ? 1 : 0), minus, is_block && !plus);
    return true;
  }

  void skip_comment(std::size_t head) {
    const std::size_t end = source_.find("#}", position_ + head);
    if (end == std::string::npos) return fail_here("a comment {# has no end #}");
    const char sign = end > position_ + head ? source_[end - 1] : '\0';
    advance(end - position_);
    finish_tag(2, sign == '-', sign != '+');
  }

  // The end of "{% WORD %}" at `begin`, if that is there; its signs tell about white space.
  struct plain_block {
    std::size_t size_bytes;
    char sign, end_sign;
  };
  std::optional<plain_block> find_plain_block(std::size_t begin, std::string_view word) const {
    const std::string_view all = std::string_view(source_).substr(begin);
    if (!all.starts_with("{%")) return std::nullopt;
    std::size_t at = 2;
    const auto take_sign = [&] { return at < all.size() && (all[at] == '-' || all[at] == '+') ? all[at++] : '\0'; };
    const char sign = take_sign();
    at += count_leading(all.substr(at), is_space);
    if (!all.substr(at).starts_with(word)) return std::nullopt;
    at += word.size();
    at += count_leading(all.substr(at), is_space);
    const char end_sign = take_sign();
    return all.substr(at).starts_with("%}") ? std::optional(plain_block{at + 2, sign, end_sign}) : std::nullopt;
  }

  bool read_raw(std::size_t) {
    const auto head = find_plain_block(position_, "raw");
    if (!head || head->end_sign == '+') return false;
    finish_tag(head->size_bytes, head->end_sign == '-', false);
    for (std::size_t end = source_.find("{%", position_); end != std::string::npos; end = source_.find("{%", end + 2)) {
      const auto tail = find_plain_block(end, "endraw");
      if (!tail) continue;
      add_text(before_tag(rest().substr(0, end - position_), tail->sign, '%'));
      advance(end - position_);
      finish_tag(tail->size_bytes, tail->end_sign == '-', tail->end_sign != '+');
      return true;
    }
    fail_here("{% raw %} has no {% endraw %}");
    return true;
  }

  void read_token() {
    const char c = source_[position_];
    if (const std::size_t blanks = count_leading(rest(), is_space)) return advance(blanks);
    if (c == '\'' || c == '"') return read_string(c);
    if (is_digit(c)) return read_number();
    if (is_word(c)) return read_name();
    read_symbol(c);
  }

  void read_name() {
    std::size_t size = 0;
    while (size < rest().size() && is_word(rest()[size])) ++size;
    add(kind::name, std::string(rest().substr(0, size)));
    advance(size);
  }

  void read_symbol(char c) {
    std::string_view symbol = rest().substr(0, 1);
    for (const std::string_view two : long_symbols) {
      if (next_is(two)) symbol = rest().substr(0, 2);
    }
    if (next_is(">=")) symbol = rest().substr(0, 2);
    if (std::string_view("+-/*%~[](){}=<>!.:|,;").find(c) == std::string_view::npos || symbol == "!") {
      return fail_here("unexpected " + in_quotes(rest().substr(0, first_unit(rest()).size_bytes)));
    }
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') {
      if (depth_ == 0) return fail_here(in_quotes(symbol) + " closes nothing");
      --depth_;
    }
    add(kind::symbol, std::string(symbol));
    advance(symbol.size());
  }

  void read_number() {
    const std::string_view all = rest();
    std::size_t size = 0;
    const auto take_digits = [&] {
      while (size < all.size() && (is_digit(all[size]) || (all[size] == '_' && size + 1 < all.size() && is_digit(all[size + 1])))) ++size;
    };
    take_digits();
    bool real = false;
    if (size + 1 < all.size() && all[size] == '.' && is_digit(all[size + 1])) {
      real = true;
      ++size;
      take_digits();
    }
    if (size < all.size() && (all[size] == 'e' || all[size] == 'E')) {
      const std::size_t sign = size + 1 < all.size() && (all[size + 1] == '+' || all[size + 1] == '-') ? 1 : 0;
      if (size + 1 + sign < all.size() && is_digit(all[size + 1 + sign])) {
        real = true;
        size += 1 + sign;
        take_digits();
      }
    }
    std::string digits;
    for (const char c : all.substr(0, size)) {
      if (c != '_') digits += c;
    }
    token& made = add(real ? kind::real : kind::integer, digits);
    const auto parsed = real ? std::from_chars(digits.data(), digits.data() + digits.size(), made.real)
                             : std::from_chars(digits.data(), digits.data() + digits.size(), made.integer);
    if (parsed.ec != std::errc()) return fail_here("the number " + in_quotes(digits) + " is out of range");
    if (size < all.size() && is_word(all[size])) return fail_here("a number ends in letters");
    advance(size);
  }

  void read_string(char quote) {
    std::string words;
    const std::string_view all = rest();
    std::size_t at = 1;
    for (; at < all.size() && all[at] != quote && !failure_; ++at) {
      if (all[at] == '\\' && at + 1 < all.size()) {
        at = read_escape(all, at + 1, words);
      } else {
        words += all[at];
      }
    }
    if (failure_) return;
    if (at >= all.size()) return fail_here("a string has no end");
    add(kind::string, std::move(words));
    advance(at + 1);
  }

  // The escape whose letter lies at `at`; returns where its last byte lies.
  std::size_t read_escape(std::string_view all, std::size_t at, std::string& words) {
    static constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = all[at];
    if (const auto known = letters.find(c); known != std::string_view::npos) {
      words += meanings[known];
    } else if (c >= '0' && c <= '7') {
      return read_code(all, at, 3, 8, false, words);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return read_code(all, at + 1, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, true, words);
    } else if (c != '\n') {
      if (c == 'N') fail_here("\\N in a string is not supported");
      words += '\\';
      words += c;
    }
    return at;
  }

  std::size_t read_code(std::string_view all, std::size_t at, std::size_t digits, int base, bool all_needed, std::string& words) {
    std::uint32_t code = 0;
    const std::string_view written = all.substr(std::min(at, all.size()), digits);
    const auto parsed = std::from_chars(written.data(), written.data() + written.size(), code, base);
    const auto used = static_cast<std::size_t>(parsed.ptr - written.data());
    const bool is_scalar = code < 0xD800 || (code >= 0xE000 && code < 0x110000);
    if (used == 0 || (all_needed && used < digits) || !is_scalar) {
      fail_here("a string has an escape that stands for no character");
      return at;
    }
    append_utf8(words, code);
    return at + used - 1;
  }

  std::string source_;
  std::size_t position_ = 0;
  place at_;
  std::size_t depth_ = 0;      // of brackets in this tag
  bool line_starting_ = true;  // did what was read last end a line?
  std::vector<token> tokens_;
  std::optional<error> failure_;
};

}  // namespace

result<std::vector<token>> cut_into_tokens(std::string_view source) {
  if (source.size() > limits::chat_template_bytes_max) {
    return fail(errc::too_large,
                "chat template: " + std::to_string(source.size()) + " bytes, over " + std::to_string(limits::chat_template_bytes_max));
  }
  if (const auto invalid = first_invalid_utf8(source)) {
    return fail(errc::bad_value, "chat template: byte " + std::to_string(*invalid) + " is no UTF-8");
  }
  return lexer(with_plain_newlines(source)).cut();
}

}  // namespace ebb::model::jinja
