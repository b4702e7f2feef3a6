#include "bus/http/api_key.hpp"
#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

namespace ebb::bus::http {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t key_bytes_min = 8;
constexpr std::size_t key_bytes_max = 4096;

bool is_plain(char each) { return each > ' ' && each < 0x7f; }  // what a header carries unchanged

}  // namespace

result<std::string> read_api_key(const fs::path& file, const std::function<void(const error&)>& warn) {
  const std::string setting = "setting `http.api_key_file`: " + file.string();
  std::ifstream in(file, std::ios::binary);
  std::string key;
  char each = 0;
  while (key.size() <= key_bytes_max && in.get(each)) key += each;
  if (in.bad() || (key.empty() && !in.eof())) return fail(errc::file_unreadable, setting + " cannot be read");
  while (key.ends_with('\n') || key.ends_with('\r')) key.pop_back();
  if (key.size() < key_bytes_min || key.size() > key_bytes_max || !std::all_of(key.begin(), key.end(), is_plain)) {
    return fail(errc::bad_value, setting + " must hold one line of " + std::to_string(key_bytes_min) + " to " + std::to_string(key_bytes_max) +
                                     " characters of ASCII without blanks, such as `openssl rand -hex 32` gives");
  }
  std::error_code ignored;
  constexpr auto others = fs::perms::group_all | fs::perms::others_all;
  if ((fs::status(file, ignored).permissions() & others) != fs::perms::none) {
    warn({errc::refused, setting + ": others than its owner have rights to it; run: chmod 600 " + file.string()});
  }
  return key;
}

}  // namespace ebb::bus::http
