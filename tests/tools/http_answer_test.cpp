// Answers over HTTP: a real daemon with the demo model behind a real port, asked by a client that only knows HTTP.
#include "tests/tools/support/http_daemon.hpp"
#include <optional>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

TEST_CASE("an answer over HTTP is the same one whole, streamed, and through the bus") {
  const http_daemon daemon;
  const http_response whole = daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 40, "hash": true})");
  REQUIRE(whole.status == 200);
  CHECK(whole.json().at("object") == "chat.completion");
  CHECK(whole.json().at("usage").at("completion_tokens") == 40);
  CHECK(whole.json().at("choices").at(0).at("finish_reason") == "length");

  const http_response streamed = daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 40, "hash": true, "stream": true, "stream_options": {"include_usage": true}})");
  REQUIRE(streamed.status == 200);
  CHECK(streamed.headers.at("content-type") == "text/event-stream");
  CHECK(streamed.body.ends_with("data: [DONE]\n\n"));
  const auto chunks = data_of(streamed.body);
  std::string text;
  std::string finish;
  for (const json& each : chunks) {
    CHECK(each.at("object") == "chat.completion.chunk");
    CHECK(each.at("id") == chunks.front().at("id"));
    if (each.at("choices").empty()) continue;
    const json& choice = each.at("choices").at(0);
    text += choice.at("delta").value("content", "");
    if (!choice.at("finish_reason").is_null()) {
      finish = choice.at("finish_reason");
      CHECK(choice.at("ebb").at("hash") == whole.json().at("choices").at(0).at("ebb").at("hash"));
    }
  }
  CHECK(chunks.front().at("choices").at(0).at("delta").at("role") == "assistant");
  CHECK(chunks.back().at("usage").at("completion_tokens") == 40);
  CHECK(finish == "length");
  CHECK(text == text_of(whole.json()));

  bus::generate same;
  same.messages = {{"user", "In the beginning", ""}};
  same.max_tokens = 40;
  same.temperature = 0.0f;
  same.ignore_eos = true;
  same.stream = false;
  CHECK(answer_of<bus::done>(*daemon.bus_client(), same).text == text);
}

TEST_CASE("memory lent over HTTP in the middle of a stream changes not one bit of the answer") {
  const http_daemon daemon;
  const std::string wanted = chat + R"(, "max_tokens": 300, "hash": true, "stream": true})";
  const auto hash_of = [](const std::string& stream) { return data_of(stream).back().at("choices").at(0).at("ebb").at("hash").get<std::string>(); };
  const std::string undisturbed = hash_of(daemon.ask("POST", "/v1/chat/completions", wanted).body);
  http_connection reader(daemon.url());
  reader.send_request("POST", "/v1/chat/completions", wanted);
  REQUIRE(reader.receive_head().status == 200);
  std::string stream;
  for (int taken = 0; taken < 20; ++taken) stream += reader.receive_chunk();
  CHECK(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 100000})").json().at("expert_slots") == 0);
  CHECK(daemon.sessions() == 1);
  CHECK(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": null})").json().at("status") == "ok");
  for (std::string chunk = reader.receive_chunk(); !chunk.empty(); chunk = reader.receive_chunk()) stream += chunk;
  CHECK(hash_of(stream) == undisturbed);
}

TEST_CASE("a client that leaves ends its answer, while it streams, while it waits whole, and while it waits for a place") {
  const http_daemon daemon([](settings& from) { from.parallel = 1; });
  for (const std::string stream : {"true", "false"}) {
    std::optional<http_connection> reader(std::in_place, daemon.url());
    reader->send_request("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 2000, "stream": )" + stream + "}");
    if (stream == "true") REQUIRE(reader->receive_head().status == 200);
    REQUIRE(comes_true([&] { return daemon.sessions() == 1; }));
    std::optional<http_connection> waiting(std::in_place, daemon.url());
    waiting->send_request("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 2000})");
    REQUIRE(comes_true([&] { return daemon.ask("GET", "/v1/status").json().at("waiting") == 1; }));
    waiting.reset();
    CHECK(comes_true([&] { return daemon.ask("GET", "/v1/status").json().at("waiting") == 0; }));
    reader.reset();
    CHECK(comes_true([&] { return daemon.sessions() == 0; }));
  }
  CHECK(daemon.ask("GET", "/v1/status").json().at("tokens_generated") < 4000);
}

TEST_CASE("plain completions take text, tokens and several prompts, and show log probabilities in their own shape") {
  const http_daemon daemon;
  const std::string common = R"("max_tokens": 6, "temperature": 0, "ignore_eos": true)";
  const json tokens = daemon.ask("POST", "/tokenize", R"({"content": "In the beginning"})").json();
  CHECK(tokens.at("tokens").size() == tokens.at("pieces").size());
  CHECK(daemon.ask("POST", "/detokenize", json{{"tokens", tokens.at("tokens")}}.dump()).json().at("content") == "In the beginning");

  const json several = daemon.ask("POST", "/v1/completions", R"({"prompt": ["In the beginning", "Call me"], "echo": true, )" + common + "}").json();
  CHECK(several.at("object") == "text_completion");
  REQUIRE(several.at("choices").size() == 2);
  CHECK(several["choices"][0].at("text").get<std::string>().starts_with("In the beginning"));
  CHECK(several["choices"][1].at("text").get<std::string>().starts_with("Call me"));
  CHECK(several.at("usage").at("completion_tokens") == 12);

  const std::string text = several["choices"][0]["text"].get<std::string>().substr(16);
  const json shown = daemon.ask("POST", "/v1/completions", R"({"prompt": "In the beginning", "logprobs": 2, )" + common + "}").json().at("choices").at(0);
  CHECK(shown.at("text") == text);
  const json& likely = shown.at("logprobs");
  REQUIRE(likely.at("tokens").size() == 6);
  std::string joined;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(likely.at("text_offset")[i] == joined.size());
    joined += likely.at("tokens")[i].get<std::string>();
    CHECK(likely.at("token_logprobs")[i] <= 0);
    CHECK(likely.at("top_logprobs")[i].size() == 2);
  }
  CHECK(joined == text);
}

TEST_CASE("a token that was not among the likeliest is shown with its own text") {
  const http_daemon daemon;
  const json answer = daemon.ask("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "In"}], "max_tokens": 30, "temperature": 3, "seed": 5, "logprobs": true})").json();
  const json& choice = answer.at("choices").at(0);
  std::string joined;
  for (const json& each : choice.at("logprobs").at("content")) {
    CHECK(each.at("top_logprobs").empty());
    for (const json& byte : each.at("bytes")) joined += static_cast<char>(byte.get<int>());
  }
  const std::string text = choice.at("message").at("content");
  CHECK(joined.substr(0, text.size()) == text);
  CHECK(!text.empty());
}

TEST_CASE("several answers to one request are different, and each the one that its own seed gives") {
  const http_daemon daemon;
  const std::string wanted = R"({"messages": [{"role": "user", "content": "In the beginning"}], "max_tokens": 20, "temperature": 1.2, "ignore_eos": true, "seed": )";
  const json three = daemon.ask("POST", "/v1/chat/completions", wanted + R"(4, "n": 3})").json();
  REQUIRE(three.at("choices").size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const json alone = daemon.ask("POST", "/v1/chat/completions", wanted + std::to_string(4 + i) + "}").json();
    CHECK(three["choices"][i].at("message") == alone.at("choices").at(0).at("message"));
  }
  CHECK(three["choices"][0].at("message") != three["choices"][1].at("message"));
  const auto chunks = data_of(daemon.ask("POST", "/v1/chat/completions", wanted + R"(4, "n": 3, "stream": true})").body);
  std::vector<std::string> texts(3);
  for (const json& each : chunks) {
    const json& choice = each.at("choices").at(0);
    texts.at(choice.at("index").get<std::size_t>()) += choice.at("delta").value("content", "");
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(texts[i] == three["choices"][i].at("message").at("content"));
}

TEST_CASE("usage counts a prompt once for its answers, and every prompt, also one that is the same as another") {
  const http_daemon daemon;
  const auto usage = [&](const char* prompts, int n) {
    const json asked{{"prompt", json::parse(prompts)}, {"n", n}, {"max_tokens", 1}, {"temperature", 0}, {"ignore_eos", true}};
    return daemon.ask("POST", "/v1/completions", asked.dump()).json().at("usage");
  };
  const int one = usage(R"("In the")", 1).at("prompt_tokens");
  CHECK(usage(R"("In the")", 3).at("prompt_tokens") == one);
  CHECK(usage(R"(["In the", "In the", "In the"])", 1).at("prompt_tokens") == 3 * one);
  CHECK(usage(R"(["In the", "In the"])", 2).at("prompt_tokens") == 2 * one);
  CHECK(usage(R"(["In the", "In the"])", 2).at("completion_tokens") == 4);
}

TEST_CASE("a body at the bound, nearly all of it prompt, is refused as beyond the context") {
  const http_daemon daemon;
  const std::string before = R"({"prompt": ")", after = R"("})";
  const std::string body = before + std::string(limits::http_body_bytes_max - before.size() - after.size(), 'a') + after;
  const http_response refused = daemon.ask("POST", "/v1/completions", body);
  CHECK(refused.status == 400);
  CHECK(refused.error_code() == "context_length_exceeded");
  CHECK(refused.json().at("error").at("param") == "prompt");
}

TEST_CASE("what the daemon refuses is named as it is called over HTTP") {
  const http_daemon daemon;
  const auto refused = [&](const char* path, const char* body) {
    const json error = daemon.ask("POST", path, body).json().at("error");
    CHECK_THAT(error.at("message").get<std::string>(), !Catch::Contains("ids"));
    return error.at("param");
  };
  CHECK(refused("/detokenize", R"({"tokens": [1, 2000000000]})") == "tokens");
  CHECK(refused("/v1/completions", R"({"prompt": [2000000000]})") == "prompt");
  CHECK(refused("/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 1, "pid": 4194304})") == "pid");
}

TEST_CASE("a prompt beyond the context is refused with both numbers, streamed or not") {
  const http_daemon daemon;
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += "whale ";
  for (const char* stream : {"true", "false"}) {
    const http_response refused = daemon.ask("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": ")" + long_text + R"("}], "stream": )" + stream + "}");
    CHECK(refused.status == 400);
    CHECK(refused.error_code() == "context_length_exceeded");
    CHECK_THAT(refused.error_message(), !Catch::Contains("bytes") && Catch::Contains("2048") && Catch::Matches(".*[0-9]{4,} tokens.*"));
  }
}

TEST_CASE("a stop text ends an answer before it, as one or as several") {
  const http_daemon daemon;
  const std::string text = text_of(daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 40})").json());
  const std::string stop = text.substr(text.size() / 2, 3);
  for (const json& stops : {json(stop), json{"never said so", stop}}) {
    const json stopped = daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 40, "stop": )" + stops.dump() + "}").json();
    CHECK(text_of(stopped) == text.substr(0, text.find(stop)));
    CHECK(stopped.at("choices").at(0).at("finish_reason") == "stop");
  }
}

TEST_CASE("a daemon that stops in the middle of a stream says so in it") {
  http_daemon daemon;
  http_connection reader(daemon.url());
  reader.send_request("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 2000, "stream": true})");
  REQUIRE(reader.receive_head().status == 200);
  reader.receive_chunk();
  daemon.stop();
  std::string stream;
  for (std::string chunk = reader.receive_chunk(); !chunk.empty(); chunk = reader.receive_chunk()) stream += chunk;
  CHECK(data_of(stream).back().at("error").at("code") == "cancelled");
  CHECK_THAT(stream, !Catch::Contains("[DONE]"));
}
