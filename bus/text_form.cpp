#include "bus/text_form.hpp"
#include "bus/field_value.hpp"
#include "bus/field_writer.hpp"
#include "bus/fields.hpp"
#include "config/assert.hpp"
#include "config/nearest.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace ebb::bus {
namespace {

constexpr std::array<std::string_view, 3> commands{"VRAM", "STATUS", "CARDS"};
constexpr std::string_view blanks = " \t";

// --- commands

class words {
 public:
  explicit words(std::string_view line) : rest_(line) {}

  std::optional<std::string_view> next() {
    const std::size_t begin = rest_.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::size_t end = std::min(rest_.find_first_of(blanks, begin), rest_.size());
    const std::string_view word = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return word;
  }

 private:
  std::string_view rest_;
};

std::string_view without_line_feed(std::string_view frame) {
  if (frame.ends_with('\n')) frame.remove_suffix(1);
  if (frame.ends_with('\r')) frame.remove_suffix(1);
  return frame;
}

// Digits and nothing else: no sign, no fraction.
std::optional<std::uint32_t> whole_number(std::string_view word) {
  std::uint32_t number = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (status != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

tl::unexpected<error> not_a_number(std::string_view name, std::string_view or_else, std::string_view word) {
  return fail(errc::bad_value, "VRAM: " + std::string(name) + " must be " + wanted(any, std::uint32_t{}) + std::string(or_else) +
                                   ", not " + in_quotes(word));
}

result<void> nothing_more(std::string_view command, words& line) {
  const auto word = line.next();
  if (!word) return {};
  return fail(errc::bad_value, std::string(command) + ": nothing may follow here, but " + in_quotes(*word) + " does");
}

result<vram> parse_vram(words& line) {
  vram out;
  const auto reserve = line.next();
  if (!reserve) return out;
  if (*reserve != "-") {
    out.reserve_mib = whole_number(*reserve);
    if (!out.reserve_mib) return not_a_number("reserve_mib", " or - for the start's reserve", *reserve);
  }
  if (const auto device = line.next()) {
    out.device = whole_number(*device);
    if (!out.device) return not_a_number("device", "", *device);
  }
  return out;
}

std::string upper_case(std::string_view word) {
  std::string out(word);
  for (char& letter : out) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return out;
}

tl::unexpected<error> no_such_command(std::string_view word) {
  const std::string guess = did_you_mean(upper_case(word), commands);
  return fail(errc::unknown_command, "there is no text command " + in_quotes(word) +
                                         (guess.empty() ? "; the text commands are VRAM, STATUS, CARDS" : guess));
}

result<command> parse_command(words& line) {
  const std::string_view name = line.next().value_or("");
  command out;
  if (name == "VRAM") {
    auto parsed = parse_vram(line);
    if (!parsed) return fail(std::move(parsed.error()));
    out = *parsed;
  } else if (name == "STATUS") {
    out = status{};
  } else if (name == "CARDS") {
    out = cards{};
  } else {
    return no_such_command(name);
  }
  if (auto end = nothing_more(name, line); !end) return fail(std::move(end.error()));
  return out;
}

// --- answers

std::string shown(bool what) { return what ? "true" : "false"; }
std::string shown(std::uint32_t what) { return std::to_string(what); }
std::string shown(std::uint64_t what) { return std::to_string(what); }

// A whole number as one, else up to three decimals.
std::string shown(double what) {
  std::array<char, 400> digits;  // the largest double has 309 before the point
  const auto printed = std::to_chars(digits.data(), digits.data() + digits.size(), what, std::chars_format::fixed, 3);
  std::string text(digits.data(), printed.ptr);
  if (!std::isfinite(what)) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

// Bare where that is clear, else in double quotes with \ before " and \.
std::string shown(const std::string& what) {
  const auto plain = [](char letter) { return letter > ' ' && letter != '"' && letter != '\\' && letter != 0x7f; };
  const auto is_high = [](char letter) { return static_cast<unsigned char>(letter) >= 0x80; };
  std::string quoted_text = "\"";
  bool bare = !what.empty();
  for (const char letter : what) {
    if (plain(letter) || is_high(letter)) {
      quoted_text += letter;
      continue;
    }
    bare = false;
    if (letter == '"' || letter == '\\') quoted_text += '\\';
    quoted_text += letter < ' ' || letter == 0x7f ? ' ' : letter;
  }
  return repaired_utf8(bare ? what : quoted_text + '"');
}

template <class T>
std::string shown(const std::optional<T>& what) {
  return shown(*what);
}

template <class T>
std::string shown(const std::vector<T>& what) {
  std::string out;
  for (const T& each : what) out.append(out.empty() ? "" : ",").append(shown(each));
  return out;
}

template <class Message>
void append_line(std::string& out, std::string_view command, const Message& message) {
  out += command;
  for_each_field(message, [&](const auto& field, const auto& owner) {
    if (is_left_out(owner.*field.member, field.when)) return;
    out.append(" ").append(field.key).append("=").append(shown(owner.*field.member));
  });
  out += '\n';
}

template <class Message>
std::string lines(std::string_view command, const std::vector<Message>& messages) {
  std::string out;
  for (const Message& each : messages) append_line(out, command, each);
  return out.append(command).append("-DONE");
}

struct text_writer {
  std::string operator()(const vram_report& report) const { return lines("VRAM", report.cards); }
  std::string operator()(const cards_report& report) const { return lines("CARDS", report.cards); }
  std::string operator()(const status_report& report) const { return lines("STATUS", std::vector{report}); }
  std::string operator()(const error& why) const {
    return "ERR " + std::string(to_string(why.code)) + " " + on_one_line(why.text);
  }

  template <class Other>
  std::string operator()(const Other&) const {
    constexpr bool body_has_a_text_form = false;
    EBB_ASSERT(body_has_a_text_form);
    return {};
  }
};

}  // namespace

tl::expected<request, refusal> parse_text(std::string_view frame) {
  words line(without_line_feed(frame));
  auto parsed = parse_command(line);
  if (!parsed) return tl::unexpected(refusal{{}, true, std::move(parsed.error())});
  return request{{}, true, std::move(*parsed)};
}

std::string text_of(const reply& answer) { return std::visit(text_writer{}, answer.body); }

}  // namespace ebb::bus
