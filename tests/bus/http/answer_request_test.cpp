#include "bus/http/answer_request.hpp"
#include "bus/codec.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::http;
using nlohmann::json;

namespace {

const json plain_chat{{"messages", {{{"role", "user"}, {"content", "hello"}}}}};

answer_request chat_of(json body) {
  body.update(plain_chat, true);
  const auto parsed = parse_chat(body.dump(), 7);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return *parsed;
}

// What a chat with these fields besides is refused with: "param code", or "" if it is not.
std::string refusal_of_chat(json fields) {
  json body = plain_chat;
  body.update(fields);
  const auto parsed = parse_chat(body.dump(), 7);
  return parsed ? "" : parsed.error().param + " " + parsed.error().code;
}
std::string refusal_of_message(const json& message) { return refusal_of_chat({{"messages", json::array({{{"role", "user"}, {"content", "x"}}, message})}}); }

std::string refusal_of_completion(json fields) {
  json body{{"prompt", "x"}};
  body.update(fields);
  const auto parsed = parse_completion(body.dump(), 7);
  return parsed ? "" : parsed.error().param + " " + parsed.error().code;
}

}  // namespace

TEST_CASE("a chat's fields arrive at the command that the bus has for them") {
  const auto asked = chat_of({{"max_tokens", 5}, {"temperature", 0.5}, {"top_p", 1}, {"top_k", 3}, {"min_p", 0}, {"repeat_penalty", 1.5}, {"repeat_last_n", 9}, {"seed", 18446744073709551615ull},
                              {"stop", {"a", "b"}}, {"hash", true}, {"ignore_eos", true}, {"stream", true}, {"stream_options", {{"include_usage", true}}}, {"logprobs", true}, {"top_logprobs", 2}});
  REQUIRE(asked.choices.size() == 1);
  generate wanted;
  wanted.messages = {{"user", "hello", ""}};
  wanted.max_tokens = 5;
  wanted.temperature = 0.5f;
  wanted.top_p = 1.0f;
  wanted.top_k = 3;
  wanted.min_p = 0.0f;
  wanted.repeat_penalty = 1.5f;
  wanted.repeat_last_n = 9;
  wanted.seed = 18446744073709551615ull;
  wanted.stop = {"a", "b"};
  wanted.hash = wanted.ignore_eos = wanted.stream = true;
  wanted.logprobs = 2;
  CHECK(asked.choices[0] == wanted);
  CHECK((asked.stream && asked.include_usage && asked.logprobs && asked.chat));
  CHECK(asked.top_logprobs == 2);
}

TEST_CASE("an answer that is not streamed comes whole from the bus, unless its tokens are to be seen") {
  CHECK_FALSE(chat_of({}).choices[0].stream);
  CHECK(chat_of({{"logprobs", true}}).choices[0].stream);
  CHECK(chat_of({{"stream", true}}).choices[0].stream);
}

TEST_CASE("several answers to one request have seeds that go up, from the one that is named or the setting") {
  const auto named = chat_of({{"n", 3}, {"seed", 10}}).choices;
  REQUIRE(named.size() == 3);
  CHECK((named[0].seed == 10u && named[1].seed == 11u && named[2].seed == 12u));
  const auto unnamed = chat_of({{"n", 2}}).choices;
  CHECK((!unnamed[0].seed && unnamed[1].seed == 8u));
}

TEST_CASE("content is a text or parts of text, and an assistant may have said nothing") {
  const auto texts = [](const json& messages) {
    const auto parsed = parse_chat(json{{"messages", messages}}.dump(), 0);
    REQUIRE(parsed);
    std::vector<std::string> out;
    for (const auto& each : parsed->choices[0].messages) out.push_back(each.role + ":" + each.content + ":" + each.name);
    return out;
  };
  CHECK(texts({{{"role", "developer"}, {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}},
               {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}, {"tool_calls", nullptr}, {"annotations", json::array()}},
               {{"role", "user"}, {"content", ""}, {"name", "ann"}}}) == std::vector<std::string>{"system:ab:", "assistant::", "user::ann"});
}

TEST_CASE("what would change the answer and is not served is refused by name") {
  CHECK(refusal_of_chat({{"tools", {{{"type", "function"}}}}}) == "tools unsupported");
  CHECK(refusal_of_chat({{"functions", {{{"name", "f"}}}}}) == "functions unsupported");
  CHECK(refusal_of_chat({{"tool_choice", "required"}}) == "tool_choice unsupported");
  CHECK(refusal_of_chat({{"response_format", {{"type", "json_object"}}}}) == "response_format unsupported");
  CHECK(refusal_of_chat({{"frequency_penalty", 0.5}}) == "frequency_penalty unsupported");
  CHECK(refusal_of_chat({{"presence_penalty", -1}}) == "presence_penalty unsupported");
  CHECK(refusal_of_chat({{"logit_bias", {{"5", 1}}}}) == "logit_bias unsupported");
  CHECK(refusal_of_chat({{"modalities", {"text", "audio"}}}) == "modalities unsupported");
  CHECK(refusal_of_chat({{"reasoning_effort", "high"}}) == "reasoning_effort unsupported");
  CHECK(refusal_of_message({{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}}}}) == "messages[1].content[0].type unsupported");
  CHECK(refusal_of_message({{"role", "assistant"}, {"content", "x"}, {"tool_calls", {{{"id", "1"}}}}}) == "messages[1].tool_calls unsupported");
  CHECK(refusal_of_completion({{"suffix", "end"}}) == "suffix unsupported");
  CHECK(refusal_of_completion({{"best_of", 3}}) == "best_of unsupported");
}

TEST_CASE("what changes nothing is accepted") {
  CHECK(refusal_of_chat({{"model", "gpt-4o"}, {"user", "u"}, {"metadata", {{"a", "b"}}}, {"store", false}, {"service_tier", "auto"}, {"frequency_penalty", 0}, {"presence_penalty", 0.0},
                         {"logit_bias", json::object()}, {"tools", json::array()}, {"tool_choice", "none"}, {"response_format", {{"type", "text"}}}, {"n", 1}, {"stop", nullptr},
                         {"max_tokens", nullptr}, {"seed", nullptr}, {"modalities", {"text"}}, {"parallel_tool_calls", true}}) == "");
  CHECK(refusal_of_completion({{"suffix", nullptr}, {"best_of", 1}, {"echo", false}, {"logprobs", nullptr}}) == "");
}

TEST_CASE("every wrong value is refused by the name of its field") {
  CHECK(refusal_of_chat({{"max_tokns", 1}}) == "max_tokns unknown_key");
  CHECK(refusal_of_chat({{"max_tokens", 0}}) == "max_tokens bad_value");
  CHECK(refusal_of_chat({{"max_tokens", 1.5}}) == "max_tokens bad_value");
  CHECK(refusal_of_chat({{"max_tokens", true}}) == "max_tokens bad_value");
  CHECK(refusal_of_chat({{"max_tokens", "5"}}) == "max_tokens bad_value");
  CHECK(refusal_of_chat({{"max_tokens", -5}}) == "max_tokens bad_value");
  CHECK(refusal_of_chat({{"max_tokens", 4294967296}}) == "max_tokens bad_value");
  CHECK(refusal_of_chat({{"max_tokens", 5}, {"max_completion_tokens", 6}}) == "max_completion_tokens bad_value");
  CHECK(refusal_of_chat({{"temperature", -0.1}}) == "temperature bad_value");
  CHECK(refusal_of_chat({{"temperature", "warm"}}) == "temperature bad_value");
  CHECK(refusal_of_chat({{"temperature", 1e300}}) == "temperature bad_value");
  CHECK(refusal_of_chat({{"top_p", 1.1}}) == "top_p bad_value");
  CHECK(refusal_of_chat({{"repeat_penalty", 0}}) == "repeat_penalty bad_value");
  CHECK(refusal_of_chat({{"seed", -1}}) == "seed bad_value");
  CHECK(refusal_of_chat({{"stop", {""}}}) == "stop bad_value");
  CHECK(refusal_of_chat({{"stop", 5}}) == "stop bad_value");
  CHECK(refusal_of_chat({{"stop", json(std::vector<std::string>(17, "x"))}}) == "stop bad_value");
  CHECK(refusal_of_chat({{"n", 0}}) == "n bad_value");
  CHECK(refusal_of_chat({{"n", 9}}) == "n bad_value");
  CHECK(refusal_of_chat({{"top_logprobs", 2}}) == "top_logprobs bad_value");
  CHECK(refusal_of_chat({{"logprobs", true}, {"top_logprobs", 21}}) == "top_logprobs bad_value");
  CHECK(refusal_of_chat({{"logprobs", 2}}) == "logprobs bad_value");
  CHECK(refusal_of_chat({{"stream", 1}}) == "stream bad_value");
  CHECK(refusal_of_chat({{"stream_options", {{"include_usage", true}}}}) == "stream_options bad_value");
  CHECK(refusal_of_chat({{"stream", true}, {"stream_options", {{"include_usag", true}}}}) == "stream_options bad_value");
  CHECK(refusal_of_chat({{"messages", json::array()}}) == "messages bad_value");
  CHECK(refusal_of_chat({{"messages", "hi"}}) == "messages bad_value");
  CHECK(refusal_of_message("hi") == "messages[1] bad_value");
  CHECK(refusal_of_message({{"content", "x"}}) == "messages[1].role missing_key");
  CHECK(refusal_of_message({{"role", "user"}}) == "messages[1].content missing_key");
  CHECK(refusal_of_message({{"role", "user"}, {"content", 5}}) == "messages[1].content bad_value");
  CHECK(refusal_of_message({{"role", "user"}, {"content", "x"}, {"nam", "y"}}) == "messages[1].nam unknown_key");
  CHECK(refusal_of_completion({{"prompt", ""}}) == "prompt bad_value");
  CHECK(refusal_of_completion({{"prompt", {1, -2}}}) == "prompt[1] bad_value");
  CHECK(refusal_of_completion({{"prompt", {1, 2147483648}}}) == "prompt[1] bad_value");
  CHECK(refusal_of_completion({{"prompt", {"a", 5}}}) == "prompt[1] bad_value");
  CHECK(refusal_of_completion({{"prompt", nullptr}}) == "prompt missing_key");
  CHECK(refusal_of_completion({{"prompt", {"a", "b", "c"}}, {"n", 3}}) == "n bad_value");
  CHECK(refusal_of_completion({{"logprobs", 21}}) == "logprobs bad_value");
  CHECK(refusal_of_completion({{"messages", json::array()}}) == "messages unknown_key");
}

TEST_CASE("a prompt that fits into a body and not into a frame of the bus is refused by its field, as beyond any context") {
  const std::string longest(limits::http_prompt_bytes_max, 'a');
  CHECK(refusal_of_completion({{"prompt", longest}}) == "");
  CHECK(refusal_of_completion({{"prompt", longest + "a"}}) == "prompt context_length_exceeded");
  CHECK(refusal_of_completion({{"prompt", {"a", longest + "a"}}}) == "prompt context_length_exceeded");
  CHECK(refusal_of_chat({{"messages", {{{"role", "user"}, {"content", longest}}}}}) == "messages context_length_exceeded");
}

// The bound of a prompt leaves a frame room for every other field, and for the 48 bytes that the names of a message's fields take.
TEST_CASE("the longest prompt and the longest conversation that are taken fit into a frame of the bus") {
  generate every;
  every.stop.assign(limits::stop_strings_max, std::string(limits::stop_bytes_max, 's'));
  every.max_tokens = every.top_k = every.repeat_last_n = every.logprobs = UINT32_MAX;
  every.temperature = every.top_p = every.min_p = every.repeat_penalty = 0.1f;
  every.seed = UINT64_MAX;
  every.hash = every.ignore_eos = true;
  const auto frame_bytes = [](const generate& asked) { return encode_request({{std::uint64_t{1}}, false, asked}).size(); };
  generate completion = every;
  completion.prompt.assign(limits::http_prompt_bytes_max, 'a');
  CHECK(frame_bytes(completion) <= limits::message_bytes_max);

  generate chat = every;
  constexpr std::size_t n = limits::chat_messages_max, words = limits::chat_role_bytes_max, text = 300;
  constexpr std::size_t room = limits::http_prompt_bytes_max - n * (48 + 2 * words) - (n - 1) * text;
  chat.messages.assign(n, {std::string(words, 'r'), std::string(text, 'c'), std::string(words, 'n')});
  chat.messages.back().content.assign(room, 'c');
  CHECK(frame_bytes(chat) <= limits::message_bytes_max);
}

TEST_CASE("a conversation of one byte more than fits into a frame is refused as too long") {
  const auto parsed = [](std::size_t bytes) { return parse_chat(R"({"messages": [{"role": "user", "content": ")" + std::string(bytes, 'c') + "\"}]}", 7); };
  constexpr std::size_t most = limits::http_prompt_bytes_max - 48 - std::string_view("user").size();
  CHECK(parsed(most));
  const auto refused = parsed(most + 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == "context_length_exceeded");
  CHECK(refused.error().param == "messages");
}

TEST_CASE("a completion takes one prompt or several, as text or tokens, and may begin with its prompt") {
  const auto several = parse_completion(R"({"prompt": ["a", "b"], "n": 2, "echo": true})", 3);
  REQUIRE(several);
  REQUIRE(several->choices.size() == 4);
  CHECK((several->choices[0].prompt == "a" && several->choices[1].prompt == "a" && several->choices[2].prompt == "b" && several->choices[3].prompt == "b"));
  CHECK((several->choices[1].seed == 4u && several->choices[3].seed == 4u && !several->choices[2].seed));
  CHECK(several->per_prompt == 2);
  CHECK(several->echoes == std::vector<std::string>{"a", "a", "b", "b"});
  CHECK(parse_completion(R"({"prompt": [1, 2]})", 3)->choices[0].ids == std::vector<token_id>{1, 2});
  CHECK(parse_completion(R"({"prompt": [1, 2], "echo": true})", 3).error().param == "echo");
}

TEST_CASE("a body that is deep, doubled, cut or no object is refused, whatever it would cost to keep") {
  const auto code_of = [](const std::string& body) {
    const auto parsed = parse_object(body);
    return parsed ? std::string() : parsed.error().message;
  };
  CHECK_THAT(code_of(std::string(1u << 20, '[')), Catch::Contains("deeper"));
  CHECK_THAT(code_of("{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}"), Catch::Contains("deeper"));
  CHECK_THAT(code_of(R"({"a": 1, "b": {"c": 1, "c": 2}})"), Catch::Contains("\"c\" twice"));
  CHECK(code_of(R"({"a": {"c": 1}, "b": {"c": 2}})") == "");
  CHECK_THAT(code_of(""), Catch::Contains("empty"));
  CHECK_THAT(code_of("{\"a\": 1e999}"), Catch::Contains("range"));
  std::string many = "{\"a\": [0";
  for (int i = 0; i < (1 << 21); ++i) many += ",0";
  CHECK_THAT(code_of(many + "]}"), Catch::Contains("values"));
}
