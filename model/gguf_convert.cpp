#include "model/gguf_convert.hpp"
#include "model/gguf_cursor.hpp"
#include "config/utf8.hpp"
#include <charconv>
#include <concepts>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ebb::model {
namespace {

// Calls `use` with the number at `from`, in the C++ type of `type`; false for what is no number.
template <class Use>
bool with_number(gguf_type type, const std::byte* from, Use use) {
  switch (type) {
    case gguf_type::uint8: use(load<std::uint8_t>(from)); return true;
    case gguf_type::int8: use(load<std::int8_t>(from)); return true;
    case gguf_type::uint16: use(load<std::uint16_t>(from)); return true;
    case gguf_type::int16: use(load<std::int16_t>(from)); return true;
    case gguf_type::uint32: use(load<std::uint32_t>(from)); return true;
    case gguf_type::int32: use(load<std::int32_t>(from)); return true;
    case gguf_type::uint64: use(load<std::uint64_t>(from)); return true;
    case gguf_type::int64: use(load<std::int64_t>(from)); return true;
    case gguf_type::float32: use(load<float>(from)); return true;
    case gguf_type::float64: use(load<double>(from)); return true;
    case gguf_type::boolean:
    case gguf_type::string:
    case gguf_type::array: return false;
  }
  return false;
}

std::string_view string_at(const std::byte* from) noexcept {
  return {reinterpret_cast<const char*>(from + sizeof(std::uint64_t)), load<std::uint64_t>(from)};
}

// One element, whose bytes start at `from`.
template <class T>
std::optional<T> convert_element(gguf_type type, const std::byte* from) {
  std::optional<T> out;
  if constexpr (std::is_same_v<T, bool>) {
    if (type == gguf_type::boolean) out = load<std::uint8_t>(from) != 0;
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    if (type == gguf_type::string) out = string_at(from);
  } else {
    with_number(type, from, [&out](auto number) {
      constexpr bool integral = std::integral<decltype(number)>;
      if constexpr (std::integral<T> && integral) {
        if (std::in_range<T>(number)) out = static_cast<T>(number);
      } else if constexpr (std::is_same_v<T, double> || (std::floating_point<T> && !integral)) {
        out = static_cast<T>(number);
      }
    });
  }
  return out;
}

std::uint64_t stored_bytes(gguf_type type, const std::byte* from) noexcept {
  return type == gguf_type::string ? sizeof(std::uint64_t) + string_at(from).size() : size_of(type);
}

template <class T>
std::optional<std::vector<T>> convert_array(const gguf_value& value) {
  std::vector<T> out;
  out.reserve(value.count);
  const std::byte* from = value.bytes.data();
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto element = convert_element<T>(value.element, from);
    if (!element) return std::nullopt;
    out.push_back(*element);
    from += stored_bytes(value.element, from);
  }
  return out;
}

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

}  // namespace

template <class T>
std::optional<T> convert(const gguf_value& value) {
  if ((value.type == gguf_type::array) != is_vector<T>) return std::nullopt;
  if constexpr (is_vector<T>) {
    return convert_array<typename T::value_type>(value);
  } else {
    return convert_element<T>(value.type, value.bytes.data());
  }
}

template std::optional<std::uint32_t> convert(const gguf_value&);
template std::optional<float> convert(const gguf_value&);
template std::optional<double> convert(const gguf_value&);
template std::optional<bool> convert(const gguf_value&);
template std::optional<std::string_view> convert(const gguf_value&);
template std::optional<std::vector<std::string_view>> convert(const gguf_value&);
template std::optional<std::vector<std::int32_t>> convert(const gguf_value&);
template std::optional<std::vector<float>> convert(const gguf_value&);

std::uint64_t size_of(gguf_type type) noexcept {
  switch (type) {
    case gguf_type::uint8:
    case gguf_type::int8:
    case gguf_type::boolean: return 1;
    case gguf_type::uint16:
    case gguf_type::int16: return 2;
    case gguf_type::uint32:
    case gguf_type::int32:
    case gguf_type::float32: return 4;
    case gguf_type::uint64:
    case gguf_type::int64:
    case gguf_type::float64: return 8;
    case gguf_type::string:
    case gguf_type::array: return 0;
  }
  return 0;
}

std::string_view to_string(gguf_type type) noexcept {
  constexpr std::string_view names[] = {"uint8",   "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                        "boolean", "string", "array",  "uint64", "int64",  "float64"};
  const auto number = static_cast<std::uint32_t>(type);
  return number < std::size(names) ? names[number] : "unknown";
}

std::string to_text(const gguf_value& value) {
  if (value.type == gguf_type::array) return "array of " + std::to_string(value.count) + " " + std::string(to_string(value.element));
  if (value.type == gguf_type::string) return in_quotes(string_at(value.bytes.data()));
  if (value.type == gguf_type::boolean) return load<std::uint8_t>(value.bytes.data()) != 0 ? "true" : "false";
  char text[32];  // the longest double takes 24
  char* end = text;
  with_number(value.type, value.bytes.data(), [&](auto number) { end = std::to_chars(text, std::end(text), number).ptr; });
  return {text, end};
}

}  // namespace ebb::model
