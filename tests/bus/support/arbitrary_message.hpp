// tests/bus/support/arbitrary_message.hpp: random messages of every kind, within what the protocol allows.
#pragma once
#include "config/limits.hpp"
#include "bus/messages.hpp"
#include <rapidcheck.h>
#include <string>
#include <vector>

namespace ebb::bus::test {

// A character of one to four bytes of UTF-8.
inline std::string encode_utf8(char32_t point) {
  const auto continuation = [&](int shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xc0 | (point >> 6)), continuation(0)};
  if (point < 0x10000) return {static_cast<char>(0xe0 | (point >> 12)), continuation(6), continuation(0)};
  return {static_cast<char>(0xf0 | (point >> 18)), continuation(12), continuation(6), continuation(0)};
}

inline rc::Gen<std::string> any_text() {
  const auto below = rc::gen::inRange<char32_t>(0, 0xd800);  // surrogates lie between the two
  const auto above = rc::gen::inRange<char32_t>(0xe000, 0x110000);
  const auto character = rc::gen::map(rc::gen::oneOf(rc::gen::inRange<char32_t>(0, 0x80), below, above), encode_utf8);
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(character), [](const std::vector<std::string>& characters) {
    std::string out;
    for (const std::string& each : characters) out += each;
    return out;
  });
}

inline rc::Gen<std::string> some_text(std::size_t bytes_max) {
  return rc::gen::suchThat(any_text(),
                           [bytes_max](const std::string& text) { return !text.empty() && text.size() <= bytes_max; });
}

inline rc::Gen<request_id> some_id() {
  return rc::gen::oneOf(
      rc::gen::map(rc::gen::arbitrary<std::uint64_t>(), [](std::uint64_t number) { return request_id{number}; }),
      rc::gen::map(some_text(request_id_bytes_max), [](const std::string& text) { return request_id{text}; }));
}

inline rc::Gen<std::optional<float>> maybe_between(float least, float most) {
  return rc::gen::map(rc::gen::pair(rc::gen::arbitrary<bool>(), rc::gen::inRange(0, 1001)), [=](std::pair<bool, int> drawn) {
    return drawn.first ? std::optional(least + (most - least) * static_cast<float>(drawn.second) / 1000.0f) : std::nullopt;
  });
}

template <class Int>
std::optional<Int> drawn_option() {
  return *rc::gen::arbitrary<bool>() ? std::optional(*rc::gen::arbitrary<Int>()) : std::nullopt;
}

inline chat_message drawn_chat_message() {
  return {*some_text(limits::chat_role_bytes_max), *any_text(), *rc::gen::arbitrary<bool>() ? *some_text(limits::chat_role_bytes_max) : std::string()};
}

inline std::vector<token_id> drawn_ids() { return *rc::gen::container<std::vector<token_id>>(rc::gen::nonNegative<token_id>()); }

inline generate drawn_generate() {
  generate out;
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      out.prompt = *some_text(1000);
      break;
    case 1:
      out.ids = *rc::gen::nonEmpty(rc::gen::container<std::vector<token_id>>(rc::gen::nonNegative<token_id>()));
      break;
    default:
      for (int n = *rc::gen::inRange(1, 4); n > 0; --n) out.messages.push_back(drawn_chat_message());
  }
  if (*rc::gen::arbitrary<bool>()) out.max_tokens = *rc::gen::positive<std::uint32_t>();
  out.temperature = *maybe_between(0, 5);
  out.top_k = drawn_option<std::uint32_t>();
  out.top_p = *maybe_between(0.0f, 1);
  out.min_p = *maybe_between(0, 1);
  out.repeat_penalty = *maybe_between(0.5f, 2);
  out.repeat_last_n = drawn_option<std::uint32_t>();
  out.seed = drawn_option<std::uint64_t>();
  const auto stop_count = *rc::gen::inRange<std::size_t>(0, 5);
  out.stop = *rc::gen::container<std::vector<std::string>>(stop_count, some_text(100));
  out.hash = *rc::gen::arbitrary<bool>();
  out.stream = *rc::gen::arbitrary<bool>();
  out.ignore_eos = *rc::gen::arbitrary<bool>();
  if (out.stream && *rc::gen::arbitrary<bool>()) out.logprobs = *rc::gen::inRange<std::uint32_t>(0, limits::logprobs_max + 1);
  return out;
}

// One that the codec takes: each action has its own fields.
inline lease drawn_lease() {
  const auto drawn_between = [](std::uint32_t least, std::uint32_t most) { return *rc::gen::inRange<std::uint32_t>(least, most + 1); };
  const auto maybe = [&](std::uint32_t least, std::uint32_t most) {
    return *rc::gen::arbitrary<bool>() ? std::optional(drawn_between(least, most)) : std::nullopt;
  };
  lease out;
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      out.action = "acquire";
      out.owner = *some_text(limits::lease_owner_bytes_max);
      out.device = drawn_between(0, 9);
      out.mib = drawn_between(1000, 99999);
      out.min_mib = maybe(1, 1000);
      out.ttl_s = maybe(1, limits::lease_ttl_s_max);
      out.wait_s = maybe(0, limits::lease_wait_s_max);
      out.pid = maybe(1, limits::pid_max);
      break;
    case 1:
      out.action = "renew";
      out.lease_id = *rc::gen::arbitrary<std::uint64_t>();
      out.ttl_s = maybe(1, limits::lease_ttl_s_max);
      break;
    case 2:
      out.action = "release";
      out.lease_id = *rc::gen::arbitrary<std::uint64_t>();
      break;
    default:
      out.action = "list";
      break;
  }
  return out;
}

inline request drawn_request() {
  request out{*some_id(), false, {}};
  switch (*rc::gen::inRange(0, 11)) {
    case 0:
      out.command = drawn_generate();
      break;
    case 1:
      out.command = cancel{*some_id()};
      break;
    case 2:
      out.command = vram{drawn_option<std::uint32_t>(), drawn_option<std::uint32_t>()};
      break;
    case 3:
      out.command = status{};
      break;
    case 4:
      out.command = drawn_lease();
      break;
    case 5:
      out.command = plan{drawn_option<std::uint32_t>(), drawn_option<std::uint32_t>()};
      break;
    case 6:
      out.command = subscribe{};
      break;
    case 7:
      out.command = tokenize{*any_text(), *rc::gen::arbitrary<bool>()};
      break;
    case 8:
      out.command = detokenize{drawn_ids()};
      break;
    case 9:
      out.command = experts{};
      break;
    default:
      out.command = cards{};
      break;
  }
  return out;
}

template <class T>
T drawn() {
  if constexpr (std::is_same_v<T, std::string>) {
    return *any_text();
  } else {
    return *rc::gen::arbitrary<T>();
  }
}

template <class T>
std::vector<T> several(T (*draw)()) {
  std::vector<T> out(*rc::gen::inRange<std::size_t>(0, 4));
  for (T& each : out) each = draw();
  return out;
}

inline card_report drawn_card() {
  return {drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<double>(),
          drawn<double>(),        drawn<double>(),        drawn<std::uint32_t>(), drawn<double>(),        drawn<double>()};
}

inline card_info drawn_card_info() {
  return {drawn_card(),  drawn<std::string>(),   drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<bool>(),
          drawn<bool>(), drawn<std::uint64_t>(), drawn<std::uint64_t>(), drawn<std::uint64_t>(), drawn<std::uint64_t>(),
          drawn<std::uint64_t>(), drawn<std::uint32_t>(), drawn<double>(), drawn<double>(),
          drawn_option<std::uint32_t>(), drawn<std::string>(), drawn<std::string>(), drawn<std::string>(), drawn_option<double>()};
}

inline status_report drawn_status() {
  return {drawn<std::string>(),   drawn<std::string>(),   drawn<std::string>(),   drawn<std::string>(),   drawn<std::uint32_t>(),
          drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(),
          drawn<double>(),        drawn<std::uint64_t>(), drawn<std::uint64_t>(), drawn<double>(),        drawn<double>(),
          drawn<std::uint64_t>(), several(drawn<std::uint64_t>), drawn<double>()};
}

inline token_logprob drawn_logprob() { return {*rc::gen::nonNegative<token_id>(), drawn<std::string>(), (*maybe_between(-40, 0)).value_or(0)}; }

inline token drawn_token() {
  token out{drawn<std::uint64_t>(), *rc::gen::nonNegative<token_id>(), drawn<std::string>(), {}, {}};
  out.logprob = *maybe_between(-40, 0);
  if (out.logprob) out.top = several(drawn_logprob);
  return out;
}

inline expert_map drawn_expert_map() {
  return {drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::string>(), drawn<std::string>(), drawn<double>()};
}

inline done drawn_done() {
  return {drawn<std::string>(), drawn<std::string>(), drawn<std::uint64_t>(), drawn<std::uint64_t>(), drawn<double>(),
          drawn<double>(),      drawn<double>(),      drawn<double>(),        drawn<double>(),        drawn<std::string>()};
}

inline lease_info drawn_lease_info() {
  return {drawn<std::uint64_t>(), drawn<std::string>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<double>(), drawn<std::uint32_t>()};
}

inline card_plan drawn_plan() {
  return {drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<std::uint32_t>(), drawn<double>(), drawn<double>(),
          drawn<double>(),        drawn<double>(),        drawn<double>(),        drawn<double>()};
}

inline reply drawn_reply() {
  reply out{*rc::gen::arbitrary<bool>() ? *some_id() : request_id{}, {}};
  switch (*rc::gen::inRange(0, 13)) {
    case 0:
      out.body = drawn_token();
      break;
    case 1:
      out.body = drawn_done();
      break;
    case 2:
      out.body = vram_report{several(drawn_card)};
      break;
    case 3:
      out.body = cards_report{several(drawn_card_info)};
      break;
    case 4:
      out.body = drawn_status();
      break;
    case 5:
      out.body = cancelled{};
      break;
    case 6:
      out.body = lease_report{several(drawn_lease_info), several(drawn_card), drawn<std::string>()};
      break;
    case 7:
      out.body = plan_report{several(drawn_plan), drawn<double>(), drawn<double>(), drawn<double>(), drawn<double>()};
      break;
    case 8:
      out.body = subscribed{several(drawn<std::string>), drawn<std::uint64_t>()};
      break;
    case 9:
      out.body = tokenized{drawn_ids(), several(drawn<std::string>)};
      break;
    case 10:
      out.body = detokenized{drawn<std::string>()};
      break;
    case 11:
      out.body = experts_report{several(drawn_expert_map)};
      break;
    default:
      out.body = error{static_cast<errc>(*rc::gen::inRange(0, static_cast<int>(errc::internal) + 1)), drawn<std::string>()};
  }
  return out;
}

// ebb::error has no ==, since our code never compares texts.
inline bool same(const reply& a, const reply& b) {
  const auto same_body = [&]<class Body>(const Body& body) {
    const auto* other = std::get_if<Body>(&b.body);
    if constexpr (std::is_same_v<Body, error>) {
      return other != nullptr && body.code == other->code && body.text == other->text;
    } else {
      return other != nullptr && body == *other;
    }
  };
  return a.id == b.id && std::visit(same_body, a.body);
}

}  // namespace ebb::bus::test
