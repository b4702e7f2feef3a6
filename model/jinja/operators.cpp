#include "model/jinja/operators.hpp"
#include "model/jinja/lookup.hpp"
#include <algorithm>
#include <cmath>

namespace ebb::model::jinja {
namespace {

value unfit(run& in, std::string_view symbol, const value& left, const value& right) {
  if (const undefined* nothing = left.is_undefined() ? left.get<undefined>() : right.get<undefined>()) {
    return in.fail("\"" + std::string(symbol) + "\" with an undefined value: " + nothing->name);
  }
  return in.fail("\"" + std::string(symbol) + "\" between " + std::string(left.type_name()) + " and " + std::string(right.type_name()));
}

value overflow(run& in) { return in.fail("a number over 64 bits"); }

// Rounded towards minus infinity, and what is left then has the sign of the divisor. Pre: b != 0, and not the one overflow.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) noexcept { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
double floor_remainder(double a, double b) noexcept {
  const double left = std::fmod(a, b);
  if (left == 0) return std::copysign(0.0, b);
  return (left < 0) != (b < 0) ? left + b : left;
}
double floor_divide(double a, double b) noexcept {
  const double quotient = (a - floor_remainder(a, b)) / b;
  const double low = std::floor(quotient);
  return quotient - low > 0.5 ? low + 1 : low;
}

value integer_power(run& in, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0)
    return base == 0 ? in.fail("0 to a negative power") : value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  std::int64_t out = 1;
  if (base == 0 || base == 1) return exponent == 0 ? std::int64_t{1} : base;
  if (base == -1) return std::int64_t{exponent % 2 == 0 ? 1 : -1};
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(out, base, &out)) return overflow(in);
  }
  return out;
}

value integer_result(run& in, std::string_view symbol, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (symbol == "+") return __builtin_add_overflow(a, b, &out) ? overflow(in) : value(out);
  if (symbol == "-") return __builtin_sub_overflow(a, b, &out) ? overflow(in) : value(out);
  if (symbol == "*") return __builtin_mul_overflow(a, b, &out) ? overflow(in) : value(out);
  if (symbol == "**") return integer_power(in, a, b);
  if (b == 0) return in.fail("division by zero");
  if (symbol == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) return symbol == "%" ? value(std::int64_t{0}) : __builtin_sub_overflow(std::int64_t{0}, a, &out) ? overflow(in) : value(out);
  return symbol == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
}

value real_result(run& in, std::string_view symbol, double a, double b) {
  if (symbol == "+") return a + b;
  if (symbol == "-") return a - b;
  if (symbol == "*") return a * b;
  if (symbol == "**") {
    const double out = std::pow(a, b);
    return (std::isfinite(a) && std::isfinite(b) && !std::isfinite(out)) ? in.fail("a power that is no number") : value(out);
  }
  if (b == 0) return in.fail("division by zero");
  if (symbol == "/") return a / b;
  return symbol == "//" ? floor_divide(a, b) : floor_remainder(a, b);
}

value repeated(run& in, const value& of, std::int64_t times) {
  const std::size_t count = times < 0 ? 0 : static_cast<std::size_t>(times);
  const std::size_t size = of.size_bytes();
  if (count != 0 && size > limits::chat_bytes_made_max / count) return in.fail(errc::too_large, "a repetition makes too much");
  if (!in.make(count * size)) return value();
  if (const text* words = of.as_text()) {
    if (count * size == 0) return text();
    text out = *words;
    while (out.size() < count * size) out.append(out.cut(0, count * size - out.size()));  // doubled: a letter at a time would take seconds
    return out;
  }
  const sequence& items = *of.as_sequence();
  std::vector<value> out;
  for (std::size_t index = 0; index < count && size > 0; ++index) out.insert(out.end(), items.items.begin(), items.items.end());
  return items.is_tuple ? in.tuple(std::move(out)) : in.list(std::move(out));
}

value joined(run& in, const value& left, const value& right) {
  if (!in.make(left.size_bytes() + right.size_bytes())) return value();
  if (const text* a = left.as_text(), *b = right.as_text(); a && b) {
    text out = *a;
    out.append(*b);
    return out;
  }
  const sequence *a = left.as_sequence(), *b = right.as_sequence();
  if (!a || !b || a->is_tuple != b->is_tuple) return unfit(in, "+", left, right);
  std::vector<value> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return a->is_tuple ? in.tuple(std::move(items)) : in.list(std::move(items));
}

int sign_of(std::strong_ordering order) noexcept { return order < 0 ? -1 : order > 0 ? 1 : 0; }

}  // namespace

value apply_binary(run& in, std::string_view symbol, const value& left, const value& right) {
  std::int64_t room_left, room_right;
  const std::int64_t *a = left.as_index(room_left), *b = right.as_index(room_right);
  if (a && b) return integer_result(in, symbol, *a, *b);
  if (left.is_number() && right.is_number()) return real_result(in, symbol, left.as_double(), right.as_double());
  if (symbol == "+") return joined(in, left, right);
  const auto repeats = [](const value& of) { return of.as_text() || of.as_sequence(); };
  if (symbol == "*" && repeats(left) && b) return repeated(in, left, *b);
  if (symbol == "*" && a && repeats(right)) return repeated(in, right, *a);
  if (symbol == "%" && left.as_text()) return in.fail("formatting a string with % is not supported");
  return unfit(in, symbol, left, right);
}

value apply_sign(run& in, std::string_view sign, const value& of) {
  const bool minus = sign == "-";
  std::int64_t room;
  if (const std::int64_t* number = of.as_index(room)) return minus ? integer_result(in, "-", 0, *number) : value(*number);
  if (of.is_number()) return minus ? -of.as_double() : of.as_double();
  return in.fail("the sign \"" + std::string(sign) + "\" before " + std::string(of.type_name()));
}

int order_of(run& in, const value& left, const value& right) {
  std::int64_t room_left, room_right;
  const std::int64_t *a = left.as_index(room_left), *b = right.as_index(room_right);
  if (a && b) return sign_of(*a <=> *b);
  if (left.is_number() && right.is_number())
    return left.as_double() < right.as_double() ? -1 : left.as_double() > right.as_double() ? 1 : 0;
  if (const text* one = left.as_text(), *other = right.as_text(); one && other) {
    in.look(std::min(one->size(), other->size()));
    return sign_of(one->view().compare(other->view()) <=> 0);  // of UTF-8, bytes order as characters do
  }
  const sequence *one = left.as_sequence(), *other = right.as_sequence();
  if (one && other && one->is_tuple == other->is_tuple) {
    if (!in.step(1)) return 0;
    for (std::size_t index = 0; index < std::min(one->items.size(), other->items.size()); ++index) {
      if (!in.walk(one->items[index])) return 0;
      if (!equal(one->items[index], other->items[index])) return order_of(in, one->items[index], other->items[index]);
    }
    return sign_of(one->items.size() <=> other->items.size());
  }
  unfit(in, "<", left, right);
  return 0;
}

bool contains(run& in, const value& whole, const value& part) {
  if (whole.is_undefined()) return false;
  if (const text* words = whole.as_text()) {
    const text* wanted = to_words(in, part, "what is looked for in a string");
    if (!wanted || !in.look(words->size() + wanted->size())) return false;
    return words->view().find(wanted->view()) != std::string_view::npos;
  }
  if (!in.walk(part)) return false;
  if (const dictionary* entries = whole.as_dict()) return in.step(entries->entries.size()) && find_key(*entries, part);
  if (const sequence* items = whole.as_sequence()) {
    for (const value& item : items->items) {
      if (!in.step(weight(part, 1u << 20))) return false;
      if (equal(item, part)) return true;
    }
    return false;
  }
  in.fail("\"in\" cannot look into " + std::string(whole.type_name()));
  return false;
}

bool apply_comparison(run& in, std::string_view symbol, const value& left, const value& right) {
  if (symbol == "==" || symbol == "!=") return in.walk(left) && equal(left, right) == (symbol == "==");
  if (symbol == "in") return contains(in, right, left);
  if (symbol == "not in") return !contains(in, right, left);
  const int order = order_of(in, left, right);
  if (symbol == "<") return order < 0;
  if (symbol == "<=") return order <= 0;
  return symbol == ">" ? order > 0 : order >= 0;
}

}  // namespace ebb::model::jinja
