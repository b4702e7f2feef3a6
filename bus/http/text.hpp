// bus/http/text.hpp: how HTTP compares names: the case of ASCII letters does not count, blanks around them neither.
#pragma once
#include <string>
#include <string_view>

namespace ebb::bus::http {

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& each : out) each = each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
  return out;
}

inline std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Whether `wanted`, in lower case, is one of those between the commas.
inline bool lists(std::string_view all, std::string_view wanted) {
  for (;;) {
    const auto comma = all.find(',');
    if (lower(trimmed(all.substr(0, comma))) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    all.remove_prefix(comma + 1);
  }
}

}  // namespace ebb::bus::http
