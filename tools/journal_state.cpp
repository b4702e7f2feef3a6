#include "tools/journal_state.hpp"
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace ebb::tools {
namespace {

constexpr const char* key = "state";

// nlohmann reads and writes bytes as unsigned char.
std::vector<std::uint8_t> numbers(bus::bytes_view bytes) {
  std::vector<std::uint8_t> out(bytes.size());
  std::transform(bytes.begin(), bytes.end(), out.begin(), [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
  return out;
}

}  // namespace

void add_state(std::map<std::string, std::string>& about, const bus::ledger_state& kept) {
  std::string text = nlohmann::json::from_msgpack(numbers(bus::encode_state(kept))).dump();
  if (text.size() <= journal_state_bytes_max) about[key] = std::move(text);
}

result<std::optional<bus::ledger_state>> state_in(const std::map<std::string, std::string>& about) {
  const auto text = about.find(key);
  if (text == about.end()) return std::optional<bus::ledger_state>{};
  const auto parsed = nlohmann::json::parse(text->second, nullptr, false);
  if (parsed.is_discarded()) return fail(errc::malformed, "the header's state is no JSON");
  const std::vector<std::uint8_t> packed = nlohmann::json::to_msgpack(parsed);
  bus::bytes frame(packed.size());
  std::transform(packed.begin(), packed.end(), frame.begin(), [](std::uint8_t each) { return std::byte{each}; });
  auto kept = bus::decode_state(frame);
  if (!kept) return fail(kept.error().code, "the header's " + kept.error().text);
  return std::optional(*std::move(kept));
}

}  // namespace ebb::tools
