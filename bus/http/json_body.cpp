#include "bus/http/json_body.hpp"
#include "config/limits.hpp"
#include "config/nearest.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>

namespace ebb::bus::http {
namespace {

using nlohmann::json;

// Watches the parser. What is beyond a bound is left out while it is read, so that it costs nothing.
class guarded_parse {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    using kind = json::parse_event_t;
    if (!wrong.empty()) return false;
    if (event == kind::object_start || event == kind::array_start) {
      if (static_cast<std::size_t>(depth) >= limits::http_json_depth_max) return no("is nested deeper than " + std::to_string(limits::http_json_depth_max) + " levels");
      if (event == kind::object_start) keys_.emplace_back();
    } else if (event == kind::object_end) {
      keys_.pop_back();
    } else if (event == kind::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) return no("has the key " + in_quotes(key) + " twice");
    }
    if (++values_ > limits::message_values_max) return no("has more than " + std::to_string(limits::message_values_max) + " values");
    return true;
  }

  std::string wrong;

 private:
  bool no(std::string why) {
    wrong = std::move(why);
    return false;
  }
  std::vector<std::set<std::string>> keys_;
  std::size_t values_ = 0;
};

std::string whole_between(const range& allowed, double type_max) {
  const double least = std::max(0.0, allowed.least);
  const double most = std::min(allowed.most, type_max);
  std::string text = "a whole number from " + std::to_string(static_cast<std::uint64_t>(least));
  if (most >= 0x1p63) return text + " to 2^64-1";
  return text + " to " + std::to_string(static_cast<std::uint64_t>(most));
}

std::string number_between(const range& allowed) {
  const auto shortly = [](double value) { return json(value == std::floor(value) ? json(static_cast<std::int64_t>(value)) : json(value)).dump(); };
  std::string text = "a number";
  if (std::isfinite(allowed.least) && std::isfinite(allowed.most)) return text + " from " + shortly(allowed.least) + " to " + shortly(allowed.most);
  if (std::isfinite(allowed.least)) text += (allowed.least_excluded ? " above " : " of at least ") + shortly(allowed.least);
  return text;
}

bool within(const range& allowed, double value) {
  return value <= allowed.most && (allowed.least_excluded ? value > allowed.least : value >= allowed.least);
}

}  // namespace

std::string shown(const json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.dump();
}

outcome<json> parse_object(std::string_view body) {
  guarded_parse watch;
  std::string wrong;
  try {
    json parsed = json::parse(body.begin(), body.end(), [&watch](int depth, json::parse_event_t event, json& value) { return watch(depth, event, value); });
    if (watch.wrong.empty() && parsed.is_object()) return parsed;
    wrong = "must be a JSON object, not " + shown(parsed);
  } catch (const json::parse_error& why) {
    wrong = body.empty() ? "is empty; it must be a JSON object" : "is no JSON: byte " + std::to_string(why.byte) + " is wrong";
  } catch (const json::exception&) {
    wrong = "is no JSON: a number is out of range";
  }
  return refuse(400, "malformed", "the body " + (watch.wrong.empty() ? wrong : watch.wrong));
}

const json* json_fields::find(std::string_view key) {
  known_.push_back(key);
  const auto found = from_.find(key);
  return found == from_.end() || found->is_null() ? nullptr : &*found;
}

void json_fields::refuse(std::string_view key, std::string why, std::string code, int status) {
  if (!wrong_) wrong_ = problem{status, std::move(code), "field `" + name_of(key) + "` " + std::move(why), name_of(key)};
}

void json_fields::refuse_value(std::string_view key, std::string_view wanted, const json& got) {
  refuse(key, "must be " + std::string(wanted) + ", not " + shown(got));
}

void json_fields::require(std::string_view key, bool is_there, std::string_view wanted) {
  if (!is_there) refuse(key, "is missing; it must be " + std::string(wanted), "missing_key");
}

void json_fields::take(std::string_view key, bool& into) {
  std::optional<bool> taken;
  take(key, taken);
  into = taken.value_or(into);
}

void json_fields::take(std::string_view key, std::optional<bool>& into) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return refuse_value(key, "true or false", *found);
  into = found->get<bool>();
}

void json_fields::take(std::string_view key, std::string& into, const range& bytes) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_string()) return refuse_value(key, "a text", *found);
  const auto& text = found->get_ref<const std::string&>();
  if (!within(bytes, static_cast<double>(text.size()))) {
    return refuse(key, "has " + std::to_string(text.size()) + " bytes; it must have from " + std::to_string(static_cast<std::uint64_t>(std::max(0.0, bytes.least))) + " to " +
                           std::to_string(static_cast<std::uint64_t>(bytes.most)));
  }
  into = text;
}

template <class Number>
void json_fields::take_number(std::string_view key, std::optional<Number>& into, const range& allowed, std::string_view or_else) {
  const json* found = find(key);
  if (found == nullptr) return;
  constexpr auto type_max = static_cast<double>(std::numeric_limits<Number>::max());
  const std::string wanted = whole_between(allowed, type_max) + std::string(or_else);
  if (!found->is_number_unsigned()) return refuse_value(key, wanted, *found);
  const auto value = found->get<std::uint64_t>();
  if (value > std::numeric_limits<Number>::max() || !within(allowed, static_cast<double>(value))) return refuse_value(key, wanted, *found);
  into = static_cast<Number>(value);
}

void json_fields::take(std::string_view key, std::optional<std::uint32_t>& into, const range& allowed) { take_number(key, into, allowed, ""); }
void json_fields::take(std::string_view key, std::optional<std::uint64_t>& into, const range& allowed) { take_number(key, into, allowed, ""); }

void json_fields::take_or_null(std::string_view key, std::optional<std::uint32_t>& into, const range& allowed) {
  if (!from_.contains(key)) {
    known_.push_back(key);
    return require(key, false, whole_between(allowed, std::numeric_limits<std::uint32_t>::max()) + ", or null");
  }
  take_number(key, into, allowed, ", or null");
}

void json_fields::take(std::string_view key, std::optional<float>& into, const range& allowed) {
  const json* found = find(key);
  if (found == nullptr) return;
  const bool fits = found->is_number() && std::isfinite(static_cast<float>(found->get<double>())) && within(allowed, found->get<double>());
  if (!fits) return refuse_value(key, number_between(allowed), *found);
  into = static_cast<float>(found->get<double>());
}

void json_fields::take(std::string_view key, std::vector<std::int32_t>& into, const range& length, const range& each) {
  const json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_array()) return refuse_value(key, "a list of whole numbers", *found);
  if (!within(length, static_cast<double>(found->size()))) {
    return refuse(key, "has " + std::to_string(found->size()) + " elements; it must have from " + std::to_string(static_cast<std::uint64_t>(length.least)) + " to " +
                           std::to_string(static_cast<std::uint64_t>(length.most)));
  }
  std::vector<std::int32_t> taken;
  taken.reserve(found->size());
  for (const json& one : *found) {
    constexpr auto type_max = std::numeric_limits<std::int32_t>::max();
    const bool fits = one.is_number_unsigned() && one.get<std::uint64_t>() <= type_max && within(each, static_cast<double>(one.get<std::uint64_t>()));
    if (!fits) return refuse_value(std::string(key) + "[" + std::to_string(taken.size()) + "]", whole_between(each, type_max), one);
    taken.push_back(one.get<std::int32_t>());
  }
  into = std::move(taken);
}

void json_fields::refuse_unknown_keys() {
  for (const auto& [key, value] : from_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    wrong_ = problem{400, "unknown_key", "there is no field " + in_quotes(name_of(key)) + did_you_mean(key, known_), name_of(key)};
    return;
  }
}

}  // namespace ebb::bus::http
