#include "model/jinja/json_text.hpp"
#include "model/jinja/operators.hpp"
#include "model/utf8.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace ebb::model::jinja {
namespace {

class json_writer {
 public:
  explicit json_writer(run& in) : in_(in) {}

  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string between_items = ", ";
  std::string between_pair = ": ";

  void write(const value& of) {
    if (in_.failed()) return;
    if (of.is_none()) return put("null");
    if (const bool* truth = of.get<bool>()) return put(*truth ? "true" : "false");
    if (const double* number = of.get<double>()) return put(number_text(*number));
    if (of.is_integer()) return put(repr(of));
    if (const text* words = of.as_text()) return put_string(words->view());
    if (const sequence* items = of.as_sequence()) return write_items(*items);
    if (const dictionary* entries = of.as_dict()) return write_entries(*entries);
    in_.fail("tojson has no form for " + std::string(of.type_name()));
  }

  std::string take() { return std::move(out_); }

 private:
  void put(std::string_view what) {
    if (in_.make(what.size())) out_ += what;
  }

  static std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  static void append_code(std::string& out, unsigned code) {
    char room[16];
    std::snprintf(room, sizeof room, "\\u%04x", code);
    out += room;
  }

  void append_character(std::string& out, std::string_view bytes, char32_t c) const {
    static constexpr std::string_view letters = "\"\\\n\r\t\f\b", meanings = "\"\\nrtfb";
    const auto known = c < 0x80 ? letters.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += '\\';
      out += meanings[known];
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
      append_code(out, c);
    } else if (ensure_ascii && c >= 0x10000) {
      append_code(out, 0xD800 + ((c - 0x10000) >> 10));
      append_code(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      out += bytes;
    }
  }

  void put_string(std::string_view bytes) {
    if (!in_.make(bytes.size())) return;
    std::string out = "\"";
    while (!bytes.empty()) {
      const utf8_unit unit = first_unit(bytes);
      append_character(out, bytes.substr(0, unit.size_bytes), unit.code_point);
      bytes.remove_prefix(unit.size_bytes);
    }
    put(out + '"');
  }

  void new_line() {
    if (!indent) return;
    put("\n");
    for (std::size_t level = 0; level < level_; ++level) put(*indent);
  }

  void write_items(const sequence& items) {
    if (items.items.empty()) return put("[]");
    put("[");
    ++level_;
    for (std::size_t index = 0; index < items.items.size(); ++index) {
      if (index > 0) put(between_items);
      new_line();
      write(items.items[index]);
    }
    --level_;
    new_line();
    put("]");
  }

  std::string key_text(const value& key) {
    if (const text* words = key.as_text()) return words->bytes();
    if (const bool* truth = key.get<bool>()) return *truth ? "true" : "false";
    if (key.is_none()) return "null";
    if (!key.is_number()) in_.fail("tojson has no key for " + std::string(key.type_name()));
    return key.get<double>() ? number_text(key.as_double()) : repr(key);
  }

  void write_entries(const dictionary& entries) {
    if (entries.entries.empty()) return put("{}");
    std::vector<const std::pair<value, value>*> order;
    for (const auto& entry : entries.entries) order.push_back(&entry);
    if (sort_keys)
      std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return order_of(in_, a->first, b->first) < 0; });
    put("{");
    ++level_;
    for (std::size_t index = 0; index < order.size() && !in_.failed(); ++index) {
      if (index > 0) put(between_items);
      new_line();
      put_string(key_text(order[index]->first));
      put(between_pair);
      write(order[index]->second);
    }
    --level_;
    new_line();
    put("}");
  }

  run& in_;
  std::string out_;
  std::size_t level_ = 0;
};

bool read_indent(run& in, const value& given, json_writer& out) {
  if (given.is_none()) return true;
  if (const text* words = given.as_text()) {
    out.indent = words->bytes();
  } else {
    const auto count = to_integer(in, given, "indent");
    if (!count) return false;
    if (*count > static_cast<std::int64_t>(limits::chat_width_max))
      return in.fail(errc::too_large, "an indent over " + std::to_string(limits::chat_width_max)), false;
    out.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(*count, 0)), ' ');
  }
  out.between_items = ",";
  return true;
}

bool read_separators(run& in, const value& given, json_writer& out) {
  if (given.is_none()) return true;
  const sequence* pair = given.as_sequence();
  if (!pair || pair->items.size() != 2) return in.fail("separators must be a pair of strings"), false;
  const text *items = to_words(in, pair->items[0], "a separator"), *keys = to_words(in, pair->items[1], "a separator");
  if (!items || !keys) return false;
  out.between_items = items->bytes();
  out.between_pair = keys->bytes();
  return true;
}

}  // namespace

value to_json(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}) || !in.walk(of)) return value();
  json_writer out(in);
  out.ensure_ascii = given.get(0, "ensure_ascii", false).truth();
  out.sort_keys = given.get(3, "sort_keys", false).truth();
  if (!read_indent(in, given.get(1, "indent", value::nothing()), out)) return value();
  if (!read_separators(in, given.get(2, "separators", value::nothing()), out)) return value();
  out.write(of);
  return in.failed() ? value() : value(text(out.take(), of.any_foreign()));
}

}  // namespace ebb::model::jinja
