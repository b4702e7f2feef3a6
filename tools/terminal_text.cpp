#include "tools/terminal_text.hpp"
#include <clocale>
#include <cwchar>
#include <locale.h>
#include <utility>

namespace ebb::tools {
namespace {

// The C library knows the widths; it asks the locale what the bytes mean, and the user's may not be UTF-8.
class utf8_locale {
 public:
  utf8_locale() : made_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)), before_(made_ != nullptr ? ::uselocale(made_) : nullptr) {}
  ~utf8_locale() {
    if (made_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(made_);
  }
  utf8_locale(const utf8_locale&) = delete;
  utf8_locale& operator=(const utf8_locale&) = delete;

 private:
  locale_t made_;
  locale_t before_;
};

// The bytes and columns of as many characters as fit.
std::pair<std::size_t, std::size_t> measure(std::string_view text, std::size_t columns_max) {
  const utf8_locale here;
  std::mbstate_t state{};
  std::size_t bytes = 0, columns = 0;
  while (bytes < text.size()) {
    wchar_t letter = 0;
    const std::size_t length = std::mbrtowc(&letter, text.data() + bytes, text.size() - bytes, &state);
    const bool understood = length != 0 && length <= text.size() - bytes;
    const int width = understood ? ::wcwidth(letter) : 1;
    const std::size_t wide = width < 0 ? 1 : static_cast<std::size_t>(width);
    if (columns + wide > columns_max) break;
    columns += wide;
    bytes += understood ? length : 1;
    if (!understood) state = {};
  }
  return {bytes, columns};
}

}  // namespace

std::size_t columns_of(std::string_view text) { return measure(text, SIZE_MAX).second; }

std::string cut_to_columns(std::string_view text, std::size_t columns) { return std::string(text.substr(0, measure(text, columns).first)); }

}  // namespace ebb::tools
