#include "model/jinja/value.hpp"
#include "model/utf8.hpp"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace ebb::model::jinja {
namespace {

template <class T>
value make_sequence(std::vector<value> items, bool is_tuple, T make) {
  sequence out{std::move(items), is_tuple, 1};
  for (const value& item : out.items) out.depth = std::max(out.depth, item.depth() + 1);
  return make(std::make_shared<const sequence>(std::move(out)));
}

bool same_items(const sequence& left, const sequence& right) noexcept {
  return left.is_tuple == right.is_tuple && std::ranges::equal(left.items, right.items, equal);
}

bool same_entries(const dictionary& left, const dictionary& right) noexcept {
  if (left.entries.size() != right.entries.size()) return false;
  return std::ranges::all_of(left.entries, [&](const auto& entry) {
    const value* other = find_key(right, entry.first);
    return other && equal(entry.second, *other);
  });
}

bool same_numbers(const value& left, const value& right) noexcept {
  std::int64_t room_left, room_right;
  const std::int64_t* a = left.as_index(room_left);
  const std::int64_t* b = right.as_index(room_right);
  return a && b ? *a == *b : left.as_double() == right.as_double();
}

void append_escape(std::string& out, const char* form, unsigned number) {
  char room[16];
  std::snprintf(room, sizeof room, form, number);
  out += room;
}

bool prints_in_repr(char32_t c) noexcept {
  return c >= 0xA1 && c != 0xAD && !(c >= 0x2000 && c <= 0x200F) && !(c >= 0x2028 && c <= 0x202F) && !(c >= 0x205F && c <= 0x206F) &&
         c != 0x3000 && c != 0xFEFF && !(c >= 0xE000 && c <= 0xF8FF) && c != 0x1680;
}

std::string text_repr(std::string_view bytes) {
  const char quote = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  while (!bytes.empty()) {
    const utf8_unit unit = first_unit(bytes);
    const char32_t c = unit.code_point;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if ((c >= 0x20 && c < 0x7F) || prints_in_repr(c)) {
      out += bytes.substr(0, unit.size_bytes);
    } else {
      append_escape(out, c <= 0xFF ? "\\x%02x" : c <= 0xFFFF ? "\\u%04x" : "\\U%08x", c);
    }
    bytes.remove_prefix(unit.size_bytes);
  }
  return out + quote;
}

std::string sequence_repr(const sequence& items) {
  std::string out = items.is_tuple ? "(" : "[";
  for (std::size_t index = 0; index < items.items.size(); ++index) {
    if (index > 0) out += ", ";
    out += repr(items.items[index]);
  }
  if (items.is_tuple && items.items.size() == 1) out += ",";
  return out + (items.is_tuple ? ")" : "]");
}

std::string dict_repr(const dictionary& entries) {
  std::string out = "{";
  for (const auto& [key, held] : entries.entries) {
    if (out.size() > 1) out += ", ";
    out += repr(key) + ": " + repr(held);
  }
  return out + "}";
}

}  // namespace

value::value(callable called) {
  called.depth = called.receiver ? called.receiver->depth() + 1 : 1;
  held_ = std::make_shared<const callable>(std::move(called));
}

value value::list(std::vector<value> items) {
  return make_sequence(std::move(items), false, [](auto made) { return value(held(std::move(made))); });
}

value value::tuple(std::vector<value> items) {
  return make_sequence(std::move(items), true, [](auto made) { return value(held(std::move(made))); });
}

value value::dict(std::vector<std::pair<value, value>> entries) {
  dictionary out;
  for (auto& [key, held] : entries) {
    out.depth = std::max({out.depth, held.depth() + 1, key.depth() + 1});
    const value* before = find_key(out, key);
    if (before) {
      *const_cast<value*>(before) = std::move(held);  // it lies in `out`, which is ours
    } else {
      out.entries.emplace_back(std::move(key), std::move(held));
    }
  }
  return value(held(std::make_shared<const dictionary>(std::move(out))));
}

double value::as_double() const noexcept {
  if (const double* number = get<double>()) return *number;
  if (const bool* truth = get<bool>()) return *truth ? 1 : 0;
  const std::int64_t* number = get<std::int64_t>();
  return number ? static_cast<double>(*number) : 0;
}

const std::int64_t* value::as_index(std::int64_t& room) const noexcept {
  if (const std::int64_t* number = get<std::int64_t>()) return number;
  const bool* truth = get<bool>();
  if (!truth) return nullptr;
  room = *truth ? 1 : 0;
  return &room;
}

std::size_t value::depth() const noexcept {
  if (const sequence* items = as_sequence()) return items->depth;
  if (const dictionary* entries = as_dict()) return entries->depth;
  if (const callable* called = as_callable()) return called->depth;
  return 0;
}

std::size_t value::size_bytes() const noexcept {
  if (const text* words = as_text()) return words->size();
  if (const sequence* items = as_sequence()) return items->items.size() * sizeof(value);
  if (const dictionary* entries = as_dict()) return entries->entries.size() * 2 * sizeof(value);
  return sizeof(value);
}

bool value::truth() const noexcept {
  if (const bool* truth = get<bool>()) return *truth;
  if (is_number()) return as_double() != 0;
  if (const text* words = as_text()) return !words->empty();
  if (const sequence* items = as_sequence()) return !items->items.empty();
  if (const dictionary* entries = as_dict()) return !entries->entries.empty();
  return !is_undefined() && !is_none();
}

bool value::any_foreign() const noexcept {
  if (const text* words = as_text()) return words->any_foreign();
  if (const sequence* items = as_sequence()) return std::ranges::any_of(items->items, &value::any_foreign);
  if (const dictionary* entries = as_dict()) {
    return std::ranges::any_of(entries->entries, [](const auto& entry) { return entry.first.any_foreign() || entry.second.any_foreign(); });
  }
  return false;
}

std::string_view value::type_name() const noexcept {
  static constexpr std::string_view names[] = {"Undefined", "NoneType", "bool",      "int",         "float",   "str",
                                               "list",      "dict",     "Namespace", "LoopContext", "function"};
  const sequence* items = as_sequence();
  return items && items->is_tuple ? "tuple" : names[held_.index()];
}

bool equal(const value& left, const value& right) noexcept {
  if (left.is_number() && right.is_number()) return same_numbers(left, right);
  if (left.is_undefined() || left.is_none()) return left.is_undefined() ? right.is_undefined() : right.is_none();
  if (const text* a = left.as_text(), *b = right.as_text(); a && b) return a->bytes() == b->bytes();
  if (const sequence* a = left.as_sequence(), *b = right.as_sequence(); a && b) return a == b || same_items(*a, *b);
  if (const dictionary* a = left.as_dict(), *b = right.as_dict(); a && b) return a == b || same_entries(*a, *b);
  if (const auto* a = left.get<name_space*>(), *b = right.get<name_space*>(); a && b) return *a == *b;
  if (const callable* a = left.as_callable(), *b = right.as_callable(); a && b) return a == b;
  return false;
}

const value* find_key(const dictionary& entries, const value& key) noexcept {
  const auto found = std::ranges::find_if(entries.entries, [&](const auto& entry) { return equal(entry.first, key); });
  return found == entries.entries.end() ? nullptr : &found->second;
}

const value* find_key(const dictionary& entries, std::string_view key) noexcept {
  for (const auto& [name, held] : entries.entries) {
    if (const text* words = name.as_text(); words && words->view() == key) return &held;
  }
  return nullptr;
}

std::size_t weight(const value& of, std::size_t stop) noexcept {
  if (const text* words = of.as_text()) return 1 + words->size() / 64;
  std::size_t sum = 1;
  const auto add = [&](const value& part) {
    if (sum < stop) sum += weight(part, stop - sum);
  };
  if (const sequence* items = of.as_sequence()) {
    for (const value& item : items->items) add(item);
  } else if (const dictionary* entries = of.as_dict()) {
    for (const auto& [key, held] : entries->entries) add(key), add(held);
  }
  return sum;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char room[400];
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(room, room + sizeof room, number, plain ? std::chars_format::fixed : std::chars_format::scientific).ptr;
  std::string out(room, end);
  if (plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

text to_text(const value& of) {
  if (const text* words = of.as_text()) return *words;
  if (of.is_undefined()) return text();
  return text(repr(of), of.any_foreign());
}

std::string repr(const value& of) {
  if (of.is_undefined()) return "Undefined";
  if (of.is_none()) return "None";
  if (const bool* truth = of.get<bool>()) return *truth ? "True" : "False";
  if (const std::int64_t* number = of.get<std::int64_t>()) return std::to_string(*number);
  if (const double* number = of.get<double>()) return float_text(*number);
  if (const text* words = of.as_text()) return text_repr(words->view());
  if (const sequence* items = of.as_sequence()) return sequence_repr(*items);
  if (const dictionary* entries = of.as_dict()) return dict_repr(*entries);
  return "<" + std::string(of.type_name()) + ">";
}

}  // namespace ebb::model::jinja
