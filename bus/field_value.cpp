#include "bus/field_value.hpp"
#include "config/assert.hpp"
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <utility>

namespace ebb::bus {
namespace {

constexpr range id_bytes{1, request_id_bytes_max};

template <std::integral Int>
bool take_whole(const wire::value& what, const range& allowed, Int& into) {
  const auto* whole = std::get_if<std::uint64_t>(&what.held);
  if (whole == nullptr || !std::in_range<Int>(*whole) || !holds(allowed, static_cast<double>(*whole))) return false;
  into = static_cast<Int>(*whole);
  return true;
}

std::optional<double> number_in(const wire::value& what) {
  if (const auto* real = std::get_if<double>(&what.held)) return *real;
  if (const auto* whole = std::get_if<std::uint64_t>(&what.held)) return static_cast<double>(*whole);
  if (const auto* below_zero = std::get_if<std::int64_t>(&what.held)) return static_cast<double>(*below_zero);
  return std::nullopt;
}

std::string shown(double bound) {
  char digits[32];
  return {digits, std::to_chars(std::begin(digits), std::end(digits), bound).ptr};
}

template <std::integral Int>
std::string wanted_whole(const range& allowed) {
  // Negative numbers are wanted nowhere, not even of a token, which is signed.
  const auto least = allowed.least > 0 ? static_cast<std::uint64_t>(allowed.least) : 0;
  constexpr auto type_max = std::numeric_limits<Int>::max();
  const auto most =
      allowed.most < static_cast<double>(type_max) ? static_cast<std::uint64_t>(allowed.most) : std::uint64_t{type_max};
  if (least == most) return std::to_string(least);
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

std::string wanted_real(const range& allowed) {
  std::string text = "a number";
  if (std::isfinite(allowed.least)) text += (allowed.least_excluded ? " above " : " of at least ") + shown(allowed.least);
  if (std::isfinite(allowed.most))
    text += (std::isfinite(allowed.least) ? " and at most " : " of at most ") + shown(allowed.most);
  return text;
}

// "1 to 128", "at least 1", "at most 16", or nothing.
std::string wanted_count(const range& allowed) {
  const bool has_least = allowed.least > 0;
  const bool has_most = std::isfinite(allowed.most);
  if (has_least && has_most) return shown(allowed.least) + " to " + shown(allowed.most);
  if (has_least) return "at least " + shown(allowed.least);
  if (has_most) return "at most " + shown(allowed.most);
  return {};
}

}  // namespace

bool holds(const range& allowed, double what) noexcept {
  const bool enough = allowed.least_excluded ? what > allowed.least : what >= allowed.least;
  return enough && what <= allowed.most;
}

bool take(const wire::value& what, const range&, bool& into) {
  const auto* truth = std::get_if<bool>(&what.held);
  if (truth == nullptr) return false;
  into = *truth;
  return true;
}

bool take(const wire::value& what, const range& allowed, std::uint32_t& into) { return take_whole(what, allowed, into); }
bool take(const wire::value& what, const range& allowed, std::uint64_t& into) { return take_whole(what, allowed, into); }
bool take(const wire::value& what, const range& allowed, std::int32_t& into) { return take_whole(what, allowed, into); }

bool take(const wire::value& what, const range& allowed, float& into) {
  const auto number = number_in(what);
  const bool fits = number && std::abs(*number) <= std::numeric_limits<float>::max();  // false for NaN too
  if (!fits) return false;
  // Bounds count after rounding, so that nothing above 0 becomes 0 unseen.
  const auto rounded = static_cast<float>(*number);
  if (!holds(allowed, rounded)) return false;
  into = rounded;
  return true;
}

bool take(const wire::value& what, const range&, double& into) {
  const auto number = number_in(what);
  if (!number) return false;
  into = *number;
  return true;
}

bool take(const wire::value& what, const range& allowed, std::string& into) {
  const auto* text = std::get_if<std::string_view>(&what.held);
  if (text == nullptr || !holds(allowed, static_cast<double>(text->size()))) return false;
  into = *text;
  return true;
}

bool take(const wire::value& what, const range&, request_id& into) {
  if (std::uint64_t number = 0; take(what, any, number)) {
    into.value = number;
    return true;
  }
  std::string text;
  if (!take(what, id_bytes, text)) return false;
  into.value = std::move(text);
  return true;
}

bool take(const wire::value& what, const range&, errc& into) {
  const auto* name = std::get_if<std::string_view>(&what.held);
  if (name == nullptr) return false;
  // The enum ends where its names do.
  for (unsigned code = 0; to_string(static_cast<errc>(code)) != "unknown"; ++code) {
    if (to_string(static_cast<errc>(code)) != *name) continue;
    into = static_cast<errc>(code);
    return true;
  }
  return false;
}

std::string wanted(const range&, bool) { return "true or false"; }
std::string wanted(const range& allowed, std::uint32_t) { return wanted_whole<std::uint32_t>(allowed); }
std::string wanted(const range& allowed, std::uint64_t) { return wanted_whole<std::uint64_t>(allowed); }
std::string wanted(const range& allowed, std::int32_t) { return wanted_whole<std::int32_t>(allowed); }
std::string wanted(const range& allowed, float) { return wanted_real(allowed); }
std::string wanted(const range& allowed, double) { return wanted_real(allowed); }
std::string wanted(const range& allowed, const std::string&) {
  const std::string count = wanted_count(allowed);
  return count.empty() ? "text" : "text of " + count + " bytes";
}
std::string wanted(const range&, const request_id&) {
  return wanted(any, std::uint64_t{}) + " or " + wanted(id_bytes, std::string{});
}
std::string wanted(const range&, errc) { return "the name of an error"; }
std::string wanted_list(const range& allowed) {
  const std::string count = wanted_count(allowed);
  return count.empty() ? "a list" : "a list of " + count;
}

void put(wire::writer& out, bool what) { out.boolean(what); }
void put(wire::writer& out, std::uint32_t what) { out.whole(what); }
void put(wire::writer& out, std::uint64_t what) { out.whole(what); }
void put(wire::writer& out, std::int32_t what) {
  EBB_ASSERT(what >= 0);
  out.whole(static_cast<std::uint64_t>(what));
}
void put(wire::writer& out, float what) { out.real(what); }
void put(wire::writer& out, double what) { out.real(what); }
void put(wire::writer& out, const std::string& what) { out.text(what); }
void put(wire::writer& out, const request_id& what) {
  if (const auto* number = std::get_if<std::uint64_t>(&what.value)) {
    out.whole(*number);
  } else if (const auto* text = std::get_if<std::string>(&what.value)) {
    out.text(*text);
  } else {
    out.nil();
  }
}
void put(wire::writer& out, errc what) { out.text(to_string(what)); }

}  // namespace ebb::bus
