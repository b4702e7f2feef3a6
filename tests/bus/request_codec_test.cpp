#include "bus/codec.hpp"
#include "config/limits.hpp"
#include "tests/bus/support/pack.hpp"
#include <catch2/catch.hpp>
#include <limits>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

// A request with the id 7.
std::string ask(const std::string& cmd, pack::fields more = {}) {
  std::string out = "\xdf" + pack::big_endian(3 + more.size(), 4);
  out += pack::text("v") + pack::whole(1) + pack::text("id") + pack::whole(7) + pack::text("cmd") + pack::text(cmd);
  for (const auto& [key, value] : more) out += pack::text(key) + value;
  return out;
}

std::string ask_vram(const std::string& reserve_mib) { return ask("vram", {{"reserve_mib", reserve_mib}}); }

// A generate with a prompt and one field more.
std::string ask_generate(const std::string& key, const std::string& value) {
  return ask("generate", {{"prompt", pack::text("hello")}, {key, value}});
}

request_id id_7() { return {std::uint64_t{7}}; }

template <class Command>
Command decoded(const std::string& packed) {
  const auto asked = decode_request(pack::frame(packed));
  if (!asked) FAIL(asked.error().why.text);
  CHECK(asked->id == id_7());
  CHECK_FALSE(asked->text);
  return std::get<Command>(asked->command);
}

struct bad_request {
  std::string packed;
  errc code;
  std::string text;
  request_id id = id_7();
};

void check_refused(const std::vector<bad_request>& table) {
  for (const bad_request& bad : table) {
    const auto asked = decode_request(pack::frame(bad.packed));
    INFO(bad.text);
    REQUIRE_FALSE(asked.has_value());
    CHECK(asked.error().why.text == bad.text);
    CHECK(to_string(asked.error().why.code) == to_string(bad.code));
    CHECK(asked.error().id == bad.id);
    CHECK_FALSE(asked.error().text);
  }
}

}  // namespace

TEST_CASE("a request needs no field that has a default") {
  const auto asked = decoded<generate>(ask("generate", {{"prompt", pack::text("hello")}}));
  generate plain;
  plain.prompt = "hello";
  CHECK(asked == plain);
  CHECK_FALSE(asked.max_tokens);
  CHECK(asked.stream);
  CHECK_FALSE(asked.temperature.has_value());
}

TEST_CASE("vram takes a reserve or nil, and a device or none") {
  CHECK(decoded<vram>(ask_vram(pack::whole(700))) == vram{700, std::nullopt});
  CHECK(decoded<vram>(ask_vram(pack::nil())) == vram{std::nullopt, std::nullopt});
  CHECK(decoded<vram>(ask("vram", {{"reserve_mib", pack::nil()}, {"device", pack::whole(1)}})) == vram{std::nullopt, 1});
}

TEST_CASE("a whole number is taken in any encoding, and where a real one is meant") {
  CHECK(decoded<vram>(ask_vram(pack::signed_whole(700))).reserve_mib == 700);
  CHECK(decoded<vram>(ask_vram("\x2a")).reserve_mib == 42);
  CHECK(decoded<generate>(ask_generate("temperature", pack::whole(1))).temperature == 1.0f);
  CHECK(decoded<generate>(ask_generate("temperature", pack::real(0.5))).temperature == 0.5f);
}

TEST_CASE("an id is kept as the client wrote it, number or text") {
  const auto id_of = [](const std::string& id) {
    return decode_request(pack::frame(pack::map({{"v", pack::whole(1)}, {"id", id}, {"cmd", pack::text("status")}})))->id;
  };
  CHECK(id_of(pack::whole(7)) == request_id{std::uint64_t{7}});
  CHECK(id_of(pack::text("7")) == request_id{std::string("7")});
  CHECK_FALSE(id_of(pack::whole(7)) == id_of(pack::text("7")));
  CHECK(id_of(pack::text(std::string(128, 'x'))) == request_id{std::string(128, 'x')});
  CHECK(id_of(pack::whole(std::numeric_limits<std::uint64_t>::max())) == request_id{std::numeric_limits<std::uint64_t>::max()});
}

TEST_CASE("each bound of generate is taken, and what lies beyond is not") {
  const auto taken = [](const std::string& key, const std::string& value) {
    return decode_request(pack::frame(ask_generate(key, value))).has_value();
  };
  CHECK(taken("max_tokens", pack::whole(1)));
  CHECK_FALSE(taken("max_tokens", pack::whole(0)));
  CHECK(taken("temperature", pack::whole(0)));
  CHECK(taken("top_p", pack::whole(1)));
  CHECK(taken("top_p", pack::real(0)));
  CHECK_FALSE(taken("repeat_penalty", pack::real(1e-60)));  // would be 0 as the float it is kept in
  CHECK(taken("min_p", pack::whole(0)));
  CHECK(taken("min_p", pack::whole(1)));
  CHECK_FALSE(taken("min_p", pack::real(1.001)));
  CHECK_FALSE(taken("repeat_penalty", pack::whole(0)));
  CHECK_FALSE(taken("temperature", pack::real(1e300)));
  CHECK_FALSE(taken("temperature", pack::real(std::numeric_limits<double>::quiet_NaN())));
  CHECK_FALSE(taken("temperature", pack::real(std::numeric_limits<double>::infinity())));
  CHECK(taken("seed", pack::whole(std::numeric_limits<std::uint64_t>::max())));
  CHECK(taken("stop", pack::list({})));
  CHECK(taken("stop", pack::list({pack::text(std::string(limits::stop_bytes_max, 'x'))})));
  CHECK_FALSE(taken("stop", pack::list({pack::text(std::string(limits::stop_bytes_max + 1, 'x'))})));
}

TEST_CASE("a wrong envelope is refused by the name of what is wrong") {
  const std::string status = pack::text("status");
  const std::string one = pack::whole(1);
  const std::string seven = pack::whole(7);
  check_refused({
      {"", errc::malformed, "the frame is empty", {}},
      {"\xc1", errc::malformed, "byte 0 of the frame begins no msgpack value", {}},
      {pack::whole(5), errc::malformed, "a frame must be a msgpack map, or text that begins with a letter, not 5", {}},
      {pack::list({one}),
       errc::malformed,
       "a frame must be a msgpack map, or text that begins with a letter, not a list of 1",
       {}},
      {"{\"v\": 1}", errc::malformed, "a frame must be a msgpack map, or text that begins with a letter, and this one begins with \"{\"", {}},
      {" VRAM", errc::malformed, "a frame must be a msgpack map, or text that begins with a letter, and this one begins with \" \"", {}},
      {"\n", errc::malformed, "a frame must be a msgpack map, or text that begins with a letter, and this one begins with \"\\x0a\"", {}},
      {ask("status") + one, errc::malformed, "after the map come 9 more bytes; a frame is one map and nothing else"},
      {"\x81" + one + one, errc::malformed, "a key of a map must be text, not 1", {}},
      {"\x81" + pack::list({}) + one, errc::malformed, "a key of a map must be text, not a list of 0", {}},
      {pack::map({{"id", seven}, {"cmd", status}}), errc::missing_key, "v is missing; it must be 1"},
      {pack::map({{"v", pack::whole(2)}, {"id", seven}, {"cmd", status}}), errc::bad_value, "v must be 1, not 2"},
      {pack::map({{"v", pack::text("1")}, {"id", seven}, {"cmd", status}}), errc::bad_value, "v must be 1, not \"1\""},
      {pack::map({{"v", one}, {"id", seven}}), errc::missing_key, "cmd is missing; it must be text"},
      {pack::map({{"v", one}, {"id", seven}, {"cmd", one}}), errc::bad_value, "cmd must be text, not 1"},
      {ask("vrm"), errc::unknown_command, "there is no command \"vrm\"; did you mean \"vram\"?"},
      {ask("sing"), errc::unknown_command,
       "there is no command \"sing\"; the commands are generate, cancel, vram, status, cards, lease, plan, subscribe, tokenize, detokenize, experts"},
  });
}

TEST_CASE("an id that is missing or wrong is refused, and the refusal carries none") {
  const std::string wanted = "id must be a whole number from 0 to 18446744073709551615 or text of 1 to 128 bytes, not ";
  const auto with_id = [](const std::string& id) {
    return pack::map({{"v", pack::whole(1)}, {"id", id}, {"cmd", pack::text("status")}});
  };
  check_refused({
      {pack::map({{"v", pack::whole(1)}, {"cmd", pack::text("status")}}),
       errc::missing_key,
       "id is missing; it must be a whole number from 0 to 18446744073709551615 or text of 1 to 128 bytes",
       {}},
      {with_id(pack::signed_whole(-1)), errc::bad_value, wanted + "-1", {}},
      {with_id(pack::real(1.5)), errc::bad_value, wanted + "1.5", {}},
      {with_id(pack::boolean(true)), errc::bad_value, wanted + "true", {}},
      {with_id(pack::nil()), errc::bad_value, wanted + "nil", {}},
      {with_id(pack::raw("abc")), errc::bad_value, wanted + "3 raw bytes", {}},
      {with_id(pack::text("")), errc::bad_value, wanted + "\"\"", {}},
      {with_id(pack::text(std::string(129, 'x'))), errc::bad_value, wanted + "\"" + std::string(80, 'x') + "\"...", {}},
      {pack::map({{"v", pack::whole(1)}, {"id", pack::whole(7)}, {"id", pack::whole(8)}, {"cmd", pack::text("status")}}),
       errc::malformed,
       "status: id is given twice; give it once",
       {}},
  });
}

TEST_CASE("a wrong vram is refused by the name of the field") {
  const std::string wanted = "vram: reserve_mib must be a whole number from 0 to 4294967295 or nil, not ";
  const std::string device = "vram: device must be a whole number from 0 to 4294967295, not ";
  const auto with_device = [](const std::string& value) {
    return ask("vram", {{"reserve_mib", pack::whole(1)}, {"device", value}});
  };
  check_refused({
      {ask("vram"), errc::missing_key, "vram: reserve_mib is missing; it must be a whole number from 0 to 4294967295 or nil"},
      {ask_vram(pack::signed_whole(-1)), errc::bad_value, wanted + "-1"},
      {ask_vram(pack::real(700)), errc::bad_value, wanted + "700.0"},
      {ask_vram(pack::real(1e300)), errc::bad_value, wanted + "1e+300"},
      {ask_vram(pack::real(0.5)), errc::bad_value, wanted + "0.5"},
      {ask_vram(pack::boolean(true)), errc::bad_value, wanted + "true"},
      {ask_vram(pack::text("700")), errc::bad_value, wanted + "\"700\""},
      {ask_vram(pack::whole(4294967296)), errc::bad_value, wanted + "4294967296"},
      {ask_vram(pack::list({})), errc::bad_value, wanted + "a list of 0"},
      {ask_vram(pack::map({})), errc::bad_value, wanted + "a map of 0"},
      {with_device(pack::nil()), errc::bad_value, device + "nil; leave it out instead"},
      {with_device(pack::signed_whole(-1)), errc::bad_value, device + "-1"},
      {with_device(pack::boolean(false)), errc::bad_value, device + "false"},
      {ask("vram", {{"reserve_mib", pack::whole(1)}, {"devise", pack::whole(0)}}), errc::unknown_key,
       "vram: there is no field \"devise\"; did you mean \"device\"?"},
      {ask("vram", {{"reserve_mib", pack::whole(1)}, {"gpu", pack::whole(0)}}), errc::unknown_key,
       "vram: there is no field \"gpu\"; the fields are v, id, cmd, reserve_mib, device"},
      {ask("vram", {{"reserve_mb", pack::whole(1)}}), errc::unknown_key,
       "vram: there is no field \"reserve_mb\"; did you mean \"reserve_mib\"?"},
      {ask("vram", {{"reserve_mib", pack::whole(1)}, {"reserve_mib", pack::whole(2)}}), errc::malformed,
       "vram: reserve_mib is given twice; give it once"},
  });
}

TEST_CASE("a wrong generate is refused by the name of the field") {
  const std::string token_wanted = "must be a whole number from 0 to 2147483647, not ";
  check_refused({
      {ask("generate"), errc::missing_key, "generate: prompt is missing; give it, or ids or messages instead"},
      {ask_generate("ids", pack::list({pack::whole(1)})), errc::bad_value,
       "generate: prompt and ids are both given; give one of them"},
      {ask("generate", {{"prompt", pack::text("")}}), errc::bad_value,
       "generate: prompt must be text of at least 1 bytes, not \"\""},
      {ask("generate", {{"prompt", pack::raw("hello")}}), errc::bad_value,
       "generate: prompt must be text of at least 1 bytes, not 5 raw bytes"},
      {ask("generate", {{"prompt", pack::text("h\xff")}}),
       errc::malformed,
       "a text is not UTF-8: its byte 1, in \"\\xff\"; send it re-encoded, or as token ids",
       {}},
      {ask("generate", {{"ids", pack::list({})}}), errc::bad_value,
       "generate: ids must be a list of 1 to 1048576, not a list of 0"},
      {ask("generate", {{"ids", pack::whole(1)}}), errc::bad_value, "generate: ids must be a list of 1 to 1048576, not 1"},
      {ask("generate", {{"ids", pack::list({pack::whole(1), pack::signed_whole(-1)})}}), errc::bad_value,
       "generate: ids[1] " + token_wanted + "-1"},
      {ask("generate", {{"ids", pack::list({pack::whole(2147483648)})}}), errc::bad_value,
       "generate: ids[0] " + token_wanted + "2147483648"},
      {ask_generate("max_tokens", pack::whole(0)), errc::bad_value,
       "generate: max_tokens must be a whole number from 1 to 4294967295, not 0"},
      {ask_generate("temperature", pack::boolean(true)), errc::bad_value,
       "generate: temperature must be a number of at least 0, not true"},
      {ask_generate("temperature", pack::real(-0.5)), errc::bad_value,
       "generate: temperature must be a number of at least 0, not -0.5"},
      {ask_generate("temperature", pack::nil()), errc::bad_value,
       "generate: temperature must be a number of at least 0, not nil; leave it out instead"},
      {ask_generate("top_p", pack::whole(2)), errc::bad_value, "generate: top_p must be a number of at least 0 and at most 1, not 2"},
      {ask_generate("min_p", pack::real(-1)), errc::bad_value,
       "generate: min_p must be a number of at least 0 and at most 1, not -1.0"},
      {ask_generate("repeat_penalty", pack::whole(0)), errc::bad_value,
       "generate: repeat_penalty must be a number above 0, not 0"},
      {ask_generate("seed", pack::signed_whole(-1)), errc::bad_value,
       "generate: seed must be a whole number from 0 to 18446744073709551615, not -1"},
      {ask_generate("stop", pack::text("\n")), errc::bad_value, "generate: stop must be a list of at most 16, not \"\\x0a\""},
      {ask_generate("stop", pack::list({pack::text("a"), pack::text("")})), errc::bad_value,
       "generate: stop[1] must be text of 1 to 1024 bytes, not \"\""},
      {ask_generate("stream", pack::whole(1)), errc::bad_value, "generate: stream must be true or false, not 1"},
      {ask_generate("temprature", pack::whole(1)), errc::unknown_key,
       "generate: there is no field \"temprature\"; did you mean \"temperature\"?"},
  });
}

namespace {

std::string ask_messages(std::initializer_list<std::string> messages) { return ask("generate", {{"messages", pack::list(messages)}}); }

std::string said(const std::string& role, const std::string& content) { return pack::map({{"role", pack::text(role)}, {"content", pack::text(content)}}); }

// With one field more.
std::string said(const std::string& role, const std::string& content, const std::string& key, const std::string& value) {
  return pack::map({{"role", pack::text(role)}, {"content", pack::text(content)}, {key, value}});
}

}  // namespace

TEST_CASE("a conversation is a list of messages, each with a role, a content and perhaps a name") {
  const auto asked = decoded<generate>(ask_messages({said("system", ""), said("user", "hello", "name", pack::text("Ada"))}));
  CHECK(asked.messages == std::vector<chat_message>{{"system", "", ""}, {"user", "hello", "Ada"}});
  CHECK(asked.prompt.empty());
}

TEST_CASE("a wrong message of a conversation is refused by its number and the name of the field") {
  const std::string role = "role must be text of 1 to 64 bytes, not ";
  check_refused({
      {ask_messages({}), errc::bad_value, "generate: messages must be a list of 1 to 32768, not a list of 0"},
      {ask("generate", {{"messages", pack::text("hello")}}), errc::bad_value, "generate: messages must be a list of 1 to 32768, not \"hello\""},
      {ask_messages({pack::text("hello")}), errc::bad_value, "generate: messages[0] must be a map, not \"hello\""},
      {ask_messages({said("user", "a"), pack::map({{"content", pack::text("hello")}})}), errc::missing_key,
       "generate: messages[1]: role is missing; it must be text of 1 to 64 bytes"},
      {ask_messages({pack::map({{"role", pack::text("user")}})}), errc::missing_key, "generate: messages[0]: content is missing; it must be text"},
      {ask_messages({said("", "hello")}), errc::bad_value, "generate: messages[0]: " + role + "\"\""},
      {ask_messages({pack::map({{"role", pack::whole(1)}, {"content", pack::text("hello")}})}), errc::bad_value, "generate: messages[0]: " + role + "1"},
      {ask_messages({pack::map({{"role", pack::text("user")}, {"content", pack::list({})}})}), errc::bad_value,
       "generate: messages[0]: content must be text, not a list of 0"},
      {ask_messages({said("user", "hello", "name", pack::text(""))}), errc::bad_value,
       "generate: messages[0]: name must be text of 1 to 64 bytes, not \"\""},
      {ask_messages({said("user", "hello", "tool_calls", pack::list({}))}), errc::unknown_key,
       "generate: messages[0]: there is no field \"tool_calls\"; the fields are role, content, name"},
      {ask_messages({said("user", "hello", "role", pack::text("user"))}), errc::malformed, "generate: messages[0]: role is given twice; give it once"},
      {ask_generate("messages", pack::list({said("user", "hello")})), errc::bad_value, "generate: prompt and messages are both given; give one of them"},
      {ask("generate", {{"ids", pack::list({pack::whole(1)})}, {"messages", pack::list({said("user", "hello")})}}), errc::bad_value,
       "generate: ids and messages are both given; give one of them"},
  });
}

TEST_CASE("log probabilities are taken up to their bound, and only with tokens to carry them") {
  CHECK(decoded<generate>(ask_generate("logprobs", pack::whole(0))).logprobs == 0u);
  CHECK(decoded<generate>(ask_generate("logprobs", pack::whole(20))).logprobs == 20u);
  CHECK_FALSE(decoded<generate>(ask_generate("seed", pack::whole(1))).logprobs);
  check_refused({
      {ask_generate("logprobs", pack::whole(21)), errc::bad_value, "generate: logprobs must be a whole number from 0 to 20, not 21"},
      {ask_generate("logprobs", pack::boolean(true)), errc::bad_value, "generate: logprobs must be a whole number from 0 to 20, not true"},
      {ask("generate", {{"prompt", pack::text("a")}, {"logprobs", pack::whole(1)}, {"stream", pack::boolean(false)}}), errc::bad_value,
       "generate: logprobs come with the tokens, and stream is false; leave one of them out"},
  });
}

TEST_CASE("tokenize and detokenize take what is theirs, and refuse the rest by name") {
  CHECK(decoded<tokenize>(ask("tokenize", {{"text", pack::text("")}})) == tokenize{"", false});
  CHECK(decoded<tokenize>(ask("tokenize", {{"text", pack::text("a")}, {"special", pack::boolean(true)}})) == tokenize{"a", true});
  CHECK(decoded<detokenize>(ask("detokenize", {{"ids", pack::list({})}})).ids.empty());
  CHECK(decoded<detokenize>(ask("detokenize", {{"ids", pack::list({pack::whole(7)})}})).ids == std::vector<token_id>{7});
  check_refused({
      {ask("tokenize"), errc::missing_key, "tokenize: text is missing; it must be text of at most 524288 bytes"},
      {ask("tokenize", {{"text", pack::text(std::string(524289, 'x'))}}), errc::bad_value,
       "tokenize: text must be text of at most 524288 bytes, not \"" + std::string(80, 'x') + "\"..."},
      {ask("tokenize", {{"text", pack::text("a")}, {"special", pack::whole(1)}}), errc::bad_value, "tokenize: special must be true or false, not 1"},
      {ask("detokenize"), errc::missing_key, "detokenize: ids is missing; it must be a list of at most 1048576"},
      {ask("detokenize", {{"ids", pack::list({pack::signed_whole(-1)})}}), errc::bad_value,
       "detokenize: ids[0] must be a whole number from 0 to 2147483647, not -1"},
      {ask("experts", {{"device", pack::whole(0)}}), errc::unknown_key, "experts: there is no field \"device\"; the fields are v, id, cmd"},
  });
}

TEST_CASE("a wrong lease is refused by its action and the name of the field, each of them once") {
  const auto acquire_with = [](const std::string& key, std::uint64_t value) {
    return ask("lease", {{"action", pack::text("acquire")}, {"owner", pack::text("test")}, {"device", pack::whole(0)}, {"mib", pack::whole(5)}, {key, pack::whole(value)}});
  };
  check_refused({
      {ask("lease", {{"action", pack::text("borrow")}}), errc::bad_value, "lease: action must be acquire, renew, release or list, not \"borrow\""},
      {ask("lease", {{"action", pack::text("renew")}}), errc::missing_key, "lease: renew: lease_id is missing; give it"},
      {acquire_with("lease_id", 1), errc::unknown_key, "lease: acquire: lease_id has no meaning here; leave it out"},
      {acquire_with("min_mib", 6), errc::bad_value, "lease: min_mib is 6, more than mib, which is 5"},
  });
}

TEST_CASE("a wrong cancel is refused by the name of the field") {
  check_refused({
      {ask("cancel"), errc::missing_key,
       "cancel: target is missing; it must be a whole number from 0 to 18446744073709551615 or text of 1 to 128 bytes"},
      {ask("cancel", {{"target", pack::nil()}}), errc::bad_value,
       "cancel: target must be a whole number from 0 to 18446744073709551615 or text of 1 to 128 bytes, not nil"},
  });
}

TEST_CASE("a frame that is larger, deeper or has more values than a message can is refused") {
  const std::string too_long(limits::message_bytes_max + 1, '\x80');
  CHECK(decode_request(pack::frame(too_long)).error().why.text == "the frame has 16777217 bytes; at most 16777216 are taken");
  CHECK(decode_request(pack::frame(too_long)).error().why.code == errc::too_large);

  const std::string deep = pack::map({{"a", pack::list({pack::list({pack::list({pack::list({})})})})}});
  CHECK(decode_request(pack::frame(deep)).error().why.text == "the frame nests deeper than 4 levels");

  const std::string many = "\xdd" + pack::big_endian(3'000'000, 4) + std::string(3'000'000, '\xc0');
  CHECK(decode_request(pack::frame(many)).error().why.text == "the frame has more than 2097152 values");
}

TEST_CASE("the refusal of a request becomes an error reply with its id") {
  const auto asked = decode_request(pack::frame(ask("vram")));
  const auto answer = decode_reply(encode_reply(to_reply(asked.error()), asked.error().text));
  REQUIRE(answer.has_value());
  CHECK(answer->id == id_7());
  CHECK(answer->last());
  CHECK(std::get<error>(answer->body).code == errc::missing_key);
}
