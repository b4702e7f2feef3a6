// bus/http/json_body.hpp: the body of a request as JSON from a stranger, and its fields, each taken and checked by name.
#pragma once
#include "bus/fields.hpp"
#include "bus/http/problem.hpp"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::bus::http {

// One JSON object, with nothing behind it. No key comes twice, and depth and number of values are bounded: what a body costs in memory
// is a small multiple of its bytes.
outcome<nlohmann::json> parse_object(std::string_view body);

// Takes fields out of an object and keeps the first thing that is wrong; a field that is absent or wrong leaves its target as it is.
class json_fields {
 public:
  // `path` begins the names of the fields: empty, or "messages[1]." The object must outlive this.
  explicit json_fields(const nlohmann::json& from, std::string path = {}) : from_(from), path_(std::move(path)) {}

  // Null counts as absent, as in OpenAI's API; take_or_null() tells the two apart.
  void take(std::string_view key, bool& into);
  void take(std::string_view key, std::string& into, const range& bytes = any);
  void take(std::string_view key, std::optional<std::uint32_t>& into, const range& allowed = any);
  void take(std::string_view key, std::optional<std::uint64_t>& into, const range& allowed = any);
  void take(std::string_view key, std::optional<float>& into, const range& allowed = any);
  void take(std::string_view key, std::optional<bool>& into);
  void take(std::string_view key, std::vector<std::int32_t>& into, const range& length, const range& each);

  // Must be there: a whole number or null.
  void take_or_null(std::string_view key, std::optional<std::uint32_t>& into, const range& allowed = any);

  // The value itself, which the caller checks; nullptr if it is absent or null.
  const nlohmann::json* find(std::string_view key);

  // For what only the caller can judge. The first refusal stays.
  void refuse(std::string_view key, std::string why, std::string code = "bad_value", int status = 400);
  void refuse_value(std::string_view key, std::string_view wanted, const nlohmann::json& got);
  void require(std::string_view key, bool is_there, std::string_view wanted);

  // Refuses keys that nothing asked for. This replaces an earlier refusal: a mistyped key is most often why another one is missing.
  void refuse_unknown_keys();

  const std::optional<problem>& wrong() const noexcept { return wrong_; }
  std::string name_of(std::string_view key) const { return path_ + std::string(key); }

 private:
  template <class Number>
  void take_number(std::string_view key, std::optional<Number>& into, const range& allowed, std::string_view or_else);

  const nlohmann::json& from_;
  std::string path_;
  std::vector<std::string_view> known_;
  std::optional<problem> wrong_;
};

// How a value from outside is shown in an error: short, on one line.
std::string shown(const nlohmann::json& value);

}  // namespace ebb::bus::http
