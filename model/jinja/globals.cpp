#include "model/jinja/globals.hpp"
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace ebb::model::jinja {
namespace {

constexpr std::array<std::string_view, 4> names = {"range", "dict", "raise_exception", "strftime_now"};

value range(run& in, const arguments& given) {
  if (!given.fit(in, "range", {"start", "stop", "step"}, 1)) return value();
  std::array<std::int64_t, 3> bounds = {0, 0, 1};
  for (std::size_t index = 0; index < given.positional.size(); ++index) {
    const auto number = to_integer(in, given.positional[index], "a bound of range");
    if (!number) return value();
    bounds[index] = *number;
  }
  if (given.positional.size() == 1) std::swap(bounds[0], bounds[1]);
  const auto [start, stop, step] = bounds;
  if (step == 0) return in.fail("the step of range cannot be 0");
  std::vector<value> out;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (out.size() >= limits::chat_range_max)
      return in.fail(errc::too_large, "a range of more than " + std::to_string(limits::chat_range_max));
    out.push_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return in.list(std::move(out));
}

value dict(run& in, const arguments& given) {
  if (!given.positional.empty()) return in.fail("dict takes named arguments only");
  std::vector<std::pair<value, value>> entries;
  for (const auto& [name, held] : given.named) entries.emplace_back(name, held);
  return in.dict(std::move(entries));
}

std::string number(const char* form, int of) {
  char room[16];
  std::snprintf(room, sizeof room, form, of);
  return room;
}

// One directive of strftime in the C locale; none if it is not supported.
std::optional<std::string> written(char directive, std::chrono::sys_seconds now) {
  using namespace std::chrono;
  static constexpr std::array months = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array days = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
  const sys_days midnight = floor<std::chrono::days>(now);
  const year_month_day date(midnight);
  const hh_mm_ss time(now - midnight);
  const std::string month = months[static_cast<unsigned>(date.month()) - 1], day = days[weekday(midnight).c_encoding()];
  const int year = static_cast<int>(date.year()), hour = static_cast<int>(time.hours().count());
  const auto in_year = (midnight - sys_days(date.year() / January / 1)).count() + 1;
  switch (directive) {
    case 'Y': return std::to_string(year);
    case 'y': return number("%02d", year % 100);
    case 'm': return number("%02d", static_cast<int>(static_cast<unsigned>(date.month())));
    case 'd': return number("%02d", static_cast<int>(static_cast<unsigned>(date.day())));
    case 'e': return number("%2d", static_cast<int>(static_cast<unsigned>(date.day())));
    case 'j': return number("%03d", static_cast<int>(in_year));
    case 'B': return month;
    case 'b':
    case 'h': return month.substr(0, 3);
    case 'A': return day;
    case 'a': return day.substr(0, 3);
    case 'w': return std::to_string(weekday(midnight).c_encoding());
    case 'H': return number("%02d", hour);
    case 'I': return number("%02d", hour % 12 == 0 ? 12 : hour % 12);
    case 'p': return hour < 12 ? "AM" : "PM";
    case 'M': return number("%02d", static_cast<int>(time.minutes().count()));
    case 'S': return number("%02d", static_cast<int>(time.seconds().count()));
    case '%': return "%";
    default: return std::nullopt;
  }
}

std::string expanded(std::string_view format) {
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const std::string_view two = format.substr(at, 2);
    const char* longer = two == "%F" ? "%Y-%m-%d" : two == "%T" ? "%H:%M:%S" : two == "%D" ? "%m/%d/%y" : two == "%R" ? "%H:%M" : nullptr;
    out += longer ? std::string(longer) : std::string(two.starts_with('%') ? two : two.substr(0, 1));
    if (two.starts_with('%')) ++at;
  }
  return out;
}

value strftime_now(run& in, const arguments& given, std::chrono::sys_seconds now) {
  if (!given.fit(in, "strftime_now", {"format"}, 1)) return value();
  const text* words = to_words(in, *given.find(0, "format"), "a format of time");
  if (!words || !in.make(words->size() * 16)) return value();
  const std::string format = expanded(words->view());
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out += format[at];
      continue;
    }
    const auto part = written(format[++at], now);
    if (!part) return in.fail("strftime_now does not know %" + std::string(1, format[at]));
    out += *part;
  }
  return text::derived(std::move(out), *words);
}

}  // namespace

bool is_global(std::string_view name) noexcept { return std::ranges::find(names, name) != names.end(); }

value call_global(run& in, std::string_view name, const arguments& given, std::optional<std::chrono::sys_seconds> now) {
  if (name == "range") return range(in, given);
  if (name == "dict") return dict(in, given);
  if (name == "strftime_now") return strftime_now(in, given, *now);
  if (!given.fit(in, name, {"message"}, 1)) return value();
  const value& message = *given.find(0, "message");
  return in.walk(message) ? in.fail(to_text(message).bytes()) : value();
}

}  // namespace ebb::model::jinja
