// tests/fuzz/curve_keys_fuzz.cpp: any bytes are a file of keys or an error that does not quote them; a file that is taken can have
// a client added to it, and its keys are keys to ZeroMQ too.
#include "bus/curve_keys.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace ebb;

const std::string client = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

void check_error(const error& why) {
  EBB_ASSERT(!why.text.empty());
  EBB_ASSERT(is_valid_utf8(why.text));
}

void check_server(std::string_view toml) {
  const auto keys = parse_server_keys(toml, "fuzzed.toml");
  if (!keys) return check_error(keys.error());
  static_cast<void>(bus::decoded_curve_key(keys->public_key));
  static_cast<void>(bus::decoded_curve_key(keys->secret_key));
  for (const std::string& each : keys->clients) static_cast<void>(bus::decoded_curve_key(each));
  const auto again = parse_server_keys(to_toml(*keys), "again.toml");
  EBB_ASSERT(again.has_value());
  EBB_ASSERT(again->clients == keys->clients);
  if (keys->clients.size() < limits::curve_clients_max) EBB_ASSERT(with_client(toml, "fuzzed.toml", client).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view toml(reinterpret_cast<const char*>(data), size);
  check_server(toml);
  if (const auto keys = parse_client_keys(toml, "fuzzed.toml"); !keys) check_error(keys.error());
  return 0;
}
