#include "config/setting_forms.hpp"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <system_error>

namespace ebb::forms {
namespace {

constexpr double page_bytes = 4096;
constexpr double mib_bytes = 1 << 20;
constexpr double segment_mib_max = 65536;  // above any card's share of a cache; a larger one is a slip of the keyboard

// `"auto" (64 on a GPU, 1 on a host card)` for one of the members of card_defaults.
std::string auto_text(std::uint32_t card_defaults::*member) {
  const auto on = [&](card_kind kind) { return std::to_string(defaults_of(kind).*member); };
  return "\"auto\" (" + on(card_kind::cuda) + " on a GPU, " + on(card_kind::host) + " on a host card)";
}

bool is_auto(const written_value& value) { return value.text() == "auto"; }

// "[a, b]" of whatever `write_one` makes of the items.
template <class Item, class WriteOne>
std::string list_of(const std::vector<Item>& items, WriteOne write_one) {
  std::string toml = "[";
  for (const Item& item : items) toml += (toml.size() > 1 ? ", " : "") + write_one(item);
  return toml + "]";
}

// Every item as `read_one` reads it; nothing when one of them is not allowed.
template <class Item, class ReadOne>
std::optional<std::vector<Item>> each_of(const written_value& value, ReadOne read_one) {
  std::vector<Item> items;
  for (const written_value& written : value.items()) {
    const std::optional<Item> item = read_one(written);
    if (!item) return std::nullopt;
    items.push_back(*item);
  }
  return items;
}

// As each_of, where "auto" is the empty list and an empty list is not allowed.
template <class Item, class ReadOne>
std::optional<std::vector<Item>> auto_or_each_of(const written_value& value, ReadOne read_one) {
  if (is_auto(value)) return std::vector<Item>{};
  auto items = each_of<Item>(value, read_one);
  return items && items->empty() ? std::nullopt : items;
}

std::optional<card_choice> read_card(const written_value& value) {
  const std::string name = value.text().value_or("");
  if (name == "host") return card_choice{card_kind::host, 0};
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix)) return std::nullopt;
  card_choice card{card_kind::cuda, 0};
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, card.gpu);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return card;
}

std::string write_card(const card_choice& card) {
  return toml_string(card.kind == card_kind::host ? "host" : "cuda:" + std::to_string(card.gpu));
}

std::string write_whole(std::uint32_t value) { return std::to_string(value); }

// A text that goes on after one of the `beginnings`.
std::optional<std::string> read_beginning(const written_value& value, std::array<std::string_view, 2> beginnings) {
  const auto text = value.text();
  const auto begins = [&](std::string_view beginning) { return text->starts_with(beginning) && text->size() > beginning.size(); };
  return text && std::any_of(beginnings.begin(), beginnings.end(), begins) ? text : std::nullopt;
}

template <class Float>
std::string shortest_text(Float number) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), end};
}

}  // namespace

std::string toml_string(std::string_view text) {
  std::string toml = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') toml += '\\';
    if (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f) {
      toml += byte;
      continue;
    }
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(byte));
    toml += escape.data();
  }
  return toml + "\"";
}

std::string shortest_number(double number) { return shortest_text(number); }
std::string shortest_number(float number) { return shortest_text(number); }

std::optional<float> number::read(const written_value& value) const {
  const auto written = value.number();
  if (!written) return std::nullopt;
  const auto rounded = static_cast<float>(*written);
  return rounded >= min && rounded <= max ? std::optional<float>(rounded) : std::nullopt;  // false for NaN
}

std::optional<std::string> address::read(const written_value& value) const {
  auto text = value.text();
  if (!text || text->empty()) return text;
  const std::size_t colon = text->rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const written_value port(written_value::bare{}, text->substr(colon + 1));
  return whole<std::uint16_t>{1, std::numeric_limits<std::uint16_t>::max()}.read(port) ? text : std::nullopt;
}

std::string segment_size::allowed() const {
  return auto_text(&card_defaults::segment_mib) + ", or a multiple of 4 KiB (" + shortest_number(page_bytes / mib_bytes) + ") up to " +
         shortest_number(segment_mib_max);
}

std::optional<std::uint64_t> segment_size::read(const written_value& value) const {
  if (is_auto(value)) return 0;
  const double mib = value.number().value_or(0.0);
  const double pages = mib * (mib_bytes / page_bytes);
  if (!(mib > 0.0 && mib <= segment_mib_max) || pages != std::floor(pages)) return std::nullopt;
  return static_cast<std::uint64_t>(mib * mib_bytes);
}

std::string segment_size::write(std::uint64_t bytes) const {
  return bytes == 0 ? toml_string("auto") : shortest_number(static_cast<double>(bytes) / mib_bytes);
}

std::optional<std::vector<card_choice>> cards::read(const written_value& value) const {
  return auto_or_each_of<card_choice>(value, read_card);
}

std::string cards::write(const std::vector<card_choice>& value) const {
  return value.empty() ? toml_string("auto") : list_of(value, write_card);
}

std::optional<std::vector<std::uint32_t>> first_layers::read(const written_value& value) const {
  const whole<std::uint32_t> layer{0, std::numeric_limits<std::uint32_t>::max()};
  auto layers = auto_or_each_of<std::uint32_t>(value, [&](const written_value& one) { return layer.read(one); });
  if (!layers || layers->empty()) return layers;
  const bool rising = std::adjacent_find(layers->begin(), layers->end(), std::greater_equal<>{}) == layers->end();
  return rising && layers->front() == 0 ? layers : std::nullopt;
}

std::string first_layers::write(const std::vector<std::uint32_t>& value) const {
  return value.empty() ? toml_string("auto") : list_of(value, write_whole);
}

std::string reserves::allowed() const {
  return auto_text(&card_defaults::reserve_mib) + ", " + whole<std::uint32_t>{0, mib_max}.allowed() + ", or a list of one a card";
}

std::optional<std::vector<std::uint32_t>> reserves::read(const written_value& value) const {
  const whole<std::uint32_t> mib{0, mib_max};
  return auto_or_each_of<std::uint32_t>(value, [&](const written_value& one) { return mib.read(one); });
}

std::string reserves::write(const std::vector<std::uint32_t>& value) const {
  if (value.empty()) return toml_string("auto");
  return value.size() == 1 ? write_whole(value.front()) : list_of(value, write_whole);
}

std::optional<std::vector<std::string>> endpoints::read(const written_value& value) const {
  auto list = each_of<std::string>(value, [](const written_value& one) {
    return is_auto(one) ? one.text() : read_beginning(one, {"ipc://", "tcp://"});
  });
  return list && list->empty() && !may_be_none ? std::nullopt : list;
}

std::string endpoints::write(const std::vector<std::string>& value) const {
  return value.size() == 1 ? toml_string(value.front()) : list_of(value, toml_string);
}

std::optional<std::vector<std::string>> origins::read(const written_value& value) const {
  return each_of<std::string>(value, [](const written_value& one) { return read_beginning(one, {"http://", "https://"}); });
}

std::string origins::write(const std::vector<std::string>& value) const { return list_of(value, toml_string); }

}  // namespace ebb::forms
