// Ebb over HTTP: a real daemon with the demo model behind a real port, asked by a client that only knows HTTP.
#include "bus/codec.hpp"
#include "bus/http/listener.hpp"
#include "tests/bus/support/http_connection.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include "tests/tools/support/demo.hpp"
#include "tools/daemon.hpp"
#include "tools/replay.hpp"
#include "tools/virtual_engine.hpp"
#include <atomic>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <sstream>
#include <zmq.hpp>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
using bus::test::http_connection;
using bus::test::http_response;
using json = nlohmann::json;

namespace {

// As a setting: a port that was free a moment ago.
std::string free_address() {
  const std::string url = bus::http::listener::open("127.0.0.1:0")->url();
  return url.substr(url.find("//") + 2);
}

// A daemon with the demo model on two cards and a free port for HTTP, in a folder of its own.
class http_daemon {
 public:
  explicit http_daemon(const std::function<void(settings&)>& change = {}, const std::filesystem::path& settings_file = {}) {
    engine_options options = demo_on(2);
    options.settings_file = settings_file;
    options.from.bus.listen = {endpoint()};
    options.from.state_dir = (folder_ / "state").string();
    options.from.http.listen = free_address();
    if (change) change(options.from);
    auto opened = tools::daemon::start(options);
    if (!opened) throw std::runtime_error(opened.error().text);
    daemon_ = std::move(*opened);
  }

  std::string url() const { return daemon_->url(); }
  std::string endpoint() const { return "ipc://" + (folder_ / "commands").string(); }
  http_response ask(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {}) const {
    return http_connection(url()).ask(method, path, body, headers);
  }
  std::unique_ptr<connection> bus_client() const {
    auto connected = connect_to_daemon(endpoint());
    if (!connected) throw std::runtime_error(connected.error().text);
    return std::move(*connected);
  }
  std::uint32_t sessions() const { return ask("GET", "/v1/status").json().at("sessions").get<std::uint32_t>(); }
  void stop() { daemon_.reset(); }

 private:
  bus::test::temporary_folder folder_;
  std::unique_ptr<tools::daemon> daemon_;
};

// The JSON behind each "data: " of a stream of events, without its end mark.
std::vector<json> data_of(const std::string& stream) {
  std::vector<json> all;
  for (std::size_t at = stream.find("data: "); at != std::string::npos; at = stream.find("data: ", at + 1)) {
    const std::string line = stream.substr(at + 6, stream.find('\n', at) - at - 6);
    if (line != "[DONE]") all.push_back(json::parse(line));
  }
  return all;
}

const std::string chat = R"({"messages": [{"role": "user", "content": "In the beginning"}], "ignore_eos": true, "temperature": 0)";

std::string text_of(const json& answer) { return answer.at("choices").at(0).at("message").at("content").get<std::string>(); }

}  // namespace

TEST_CASE("memory is lent and taken back over HTTP, and every figure of every card is in the answer") {
  const http_daemon daemon;
  const json lent = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5, "gpu": 0})").json();
  CHECK(lent.at("status") == "ok");
  CHECK(lent.at("reserve_mib") == 5);
  CHECK(lent.at("expert_slots") < lent.at("expert_slots_full"));
  CHECK(lent.at("short_mib") == 0);
  REQUIRE(lent.at("gpus").size() == 1);
  CHECK(lent.at("gpus")[0].at("gpu") == 0);
  CHECK(lent.at("gpus")[0].at("vram_free_mib") >= 5);

  const json seen = daemon.ask("GET", "/v1/vram").json();
  REQUIRE(seen.at("gpus").size() == 2);
  for (const char* sum : {"reserve_mib", "expert_slots", "expert_slots_full", "expert_cache_mib", "expert_cache_full_mib", "vram_free_mib", "short_mib"}) {
    CHECK(seen.at(sum).get<double>() == Approx(seen["gpus"][0].at(sum).get<double>() + seen["gpus"][1].at(sum).get<double>()));
  }
  CHECK(seen.at("prompt_chunk") == std::min(seen["gpus"][0].at("prompt_chunk"), seen["gpus"][1].at("prompt_chunk")));

  const json taken_back = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": null})").json();
  CHECK(taken_back.at("expert_slots") == taken_back.at("expert_slots_full"));

  const json too_much = daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 100000})").json();
  CHECK(too_much.at("status") == "short");
  CHECK(too_much.at("short_mib") > 0);
}

TEST_CASE("every wrong body of /v1/vram is refused by the name of its field, and nothing changes") {
  const http_daemon daemon;
  struct wrong {
    std::string body;
    std::string code;
    json param;
  };
  const std::vector<wrong> all{{R"({"reserve_mib": true})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": "5"})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 1.5})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 5.0})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": -1})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 4294967296})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": 1e3})", "bad_value", "reserve_mib"},
                               {R"({"reserve_mib": [1]})", "bad_value", "reserve_mib"},
                               {R"({})", "missing_key", "reserve_mib"},
                               {R"({"gpu": 0})", "missing_key", "reserve_mib"},
                               {R"({"reserve_mib": 1, "gpu": 2})", "unknown_device", "gpu"},
                               {R"({"reserve_mib": 1, "gpu": -1})", "bad_value", "gpu"},
                               {R"({"reserve_mib": 1, "gpu": true})", "bad_value", "gpu"},
                               {R"({"reserve_mib": 1, "device": 0})", "unknown_key", "device"},
                               {R"({"reserve_mib": 1, "reserve_mib": 2})", "malformed", nullptr},
                               {R"({"reserve_mib": 1} x)", "malformed", nullptr},
                               {R"([1])", "malformed", nullptr},
                               {"\"\xff\"", "malformed", nullptr},
                               {"{", "malformed", nullptr}};
  const json before = daemon.ask("GET", "/v1/vram").json();
  for (const wrong& each : all) {
    CAPTURE(each.body);
    const http_response answer = daemon.ask("POST", "/v1/vram", each.body);
    CHECK(answer.status == 400);
    CHECK(answer.error_code() == each.code);
    CHECK(answer.json().at("error").at("param") == each.param);
    CHECK(answer.json().at("error").at("type") == "invalid_request_error");
  }
  CHECK(daemon.ask("GET", "/v1/vram").json() == before);
}

TEST_CASE("a lease over HTTP outlives its connection, is renewed and released, and is the same one for the same key") {
  const http_daemon daemon;
  const std::string wanted = R"({"owner": "comfyui", "gpu": 0, "mib": 3, "ttl_s": 600})";
  const http_response first = daemon.ask("POST", "/v1/vram/leases", wanted, "Idempotency-Key: job-1\r\n");
  REQUIRE(first.status == 201);
  const json lease = first.json();
  const std::string place = first.headers.at("location");
  CHECK(place == "/v1/vram/leases/" + std::to_string(lease.at("lease_id").get<int>()));
  CHECK(lease.at("mib") == 3);
  CHECK(lease.at("cards").size() == 1);

  CHECK(daemon.ask("POST", "/v1/vram/leases", wanted, "Idempotency-Key: job-1\r\n").json().at("lease_id") == lease.at("lease_id"));
  REQUIRE(daemon.ask("GET", "/v1/vram/leases").json().at("leases").size() == 1);

  const json renewed = daemon.ask("PATCH", place, R"({"ttl_s": 1200})").json();
  CHECK(renewed.at("ends_in_s") > 600);
  CHECK(daemon.ask("POST", place, R"({"ttl_s": 60})").json().at("ends_in_s") <= 60);
  CHECK(daemon.ask("DELETE", place).status == 200);
  CHECK(daemon.ask("DELETE", place).status == 404);
  CHECK(daemon.ask("GET", "/v1/vram/leases").json().at("leases").empty());
}

TEST_CASE("a lease that there is no room for is refused with 409, and one that is waited for ends with its client") {
  const http_daemon daemon;
  const http_response refused = daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 100000})");
  CHECK(refused.status == 409);
  CHECK(refused.error_code() == "short_of");

  const auto id = daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 0, "mib": 8})").json().at("lease_id").get<int>();
  {
    http_connection waiting(daemon.url());
    waiting.send_request("POST", "/v1/vram/leases", R"({"owner": "b", "gpu": 0, "mib": 8, "wait_s": 600})");
    waiting.give_up_after(std::chrono::milliseconds(200));
    CHECK(waiting.receive().status == 0);
  }
  CHECK(daemon.ask("DELETE", "/v1/vram/leases/" + std::to_string(id)).status == 200);
  CHECK(comes_true([&] { return daemon.ask("GET", "/v1/vram/leases").json().at("leases").empty(); }));
}

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

TEST_CASE("events come over HTTP as they do on the bus") {
  const http_daemon daemon;
  http_connection listening(daemon.url());
  listening.send_request("GET", "/v1/events");
  REQUIRE(listening.receive_head().headers.at("content-type") == "text/event-stream");
  CHECK(listening.receive_chunk().starts_with(":"));
  daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 100000, "gpu": 1})");
  std::string heard;
  const auto has = [&](const std::string& event) { return heard.find("event: " + event + "\n") != std::string::npos; };
  while (!has("short") || !has("resized") || !has("residency_flipped")) {
    const std::string chunk = listening.receive_chunk();
    REQUIRE(!chunk.empty());
    heard += chunk;
  }
  for (const json& each : data_of(heard)) {
    CHECK(each.at("sequence").is_number());
    CHECK(each.at("device") == 1);
  }
}

TEST_CASE("health, status, cards, experts and models are there, and health needs no key") {
  const http_daemon daemon;
  CHECK(daemon.ask("GET", "/health").json() == json{{"status", "ok"}});
  CHECK(daemon.ask("HEAD", "/health").status == 200);
  CHECK(daemon.ask("GET", "/v1/status").json().at("state") == "ready");
  CHECK(daemon.ask("GET", "/v1/cards").json().at("cards").size() == 2);
  CHECK(daemon.ask("GET", "/v1/experts").json().at("cards").size() == 2);
  const json models = daemon.ask("GET", "/v1/models").json();
  const std::string id = models.at("data").at(0).at("id");
  CHECK(daemon.ask("GET", "/v1/models/" + id).json().at("object") == "model");
  CHECK(daemon.ask("GET", "/v1/models/another").status == 404);
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

TEST_CASE("a prompt beyond the context is refused with both numbers, streamed or not") {
  const http_daemon daemon;
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += "whale ";
  for (const char* stream : {"true", "false"}) {
    const http_response refused = daemon.ask("POST", "/v1/chat/completions", R"({"messages": [{"role": "user", "content": ")" + long_text + R"("}], "stream": )" + stream + "}");
    CHECK(refused.status == 400);
    CHECK(refused.error_code() == "context_length_exceeded");
    CHECK_THAT(refused.error_message(), Catch::Contains("2048") && Catch::Matches(".*[0-9]{4,} tokens.*"));
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

TEST_CASE("with a key nobody is served without it but health and preflights, and pages of others are sent away with it too") {
  bus::test::temporary_folder folder;
  const auto file = folder / "key";
  std::ofstream(file) << "correct-horse\n";
  const http_daemon daemon([&](settings& from) {
    from.http.api_key_file = file.string();
    from.http.trusted_origins = {"http://comfy.example"};
  });
  const std::string key = "Authorization: Bearer correct-horse\r\n";
  CHECK(daemon.ask("GET", "/health").status == 200);
  for (const char* path : {"/v1/vram", "/v1/status", "/v1/config", "/nowhere"}) CHECK(daemon.ask("GET", path).status == 401);
  CHECK(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5})", "X-Api-Key: wrong-horse\r\n").status == 401);
  CHECK(daemon.ask("GET", "/v1/vram", {}, key).json().at("reserve_mib") == 0);
  CHECK(daemon.ask("GET", "/v1/vram", {}, key + "Origin: http://evil.example\r\n").error_code() == "foreign_origin");
  const http_response trusted = daemon.ask("GET", "/v1/vram", {}, key + "Origin: http://comfy.example\r\n");
  CHECK(trusted.headers.at("access-control-allow-origin") == "http://comfy.example");
  const http_response preflight = daemon.ask("OPTIONS", "/v1/vram", {}, "Origin: http://comfy.example\r\nAccess-Control-Request-Method: POST\r\n");
  CHECK(preflight.status == 204);
  CHECK_THAT(preflight.headers.at("access-control-allow-methods"), Catch::Contains("POST"));
  http_connection elsewhere(daemon.url());
  elsewhere.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(elsewhere.receive().error_code() == "foreign_host");
}

TEST_CASE("settings are shown without secrets, and those that can be are edited in their file for the next start") {
  bus::test::temporary_folder folder;
  const auto file = folder / "ebb.toml";
  std::ofstream(file) << "# mine\nvram_reserve_mib = 0 # none\n";
  const http_daemon daemon({}, file);
  const json before = daemon.ask("GET", "/v1/config").json();
  CHECK(before.at("settings").at("bus").at("listen").size() == 1);
  CHECK(before.at("settings").at("vram_elastic") == true);
  CHECK(before.at("next_start").at("vram_reserve_mib") == 0);
  const json after = daemon.ask("PATCH", "/v1/config", R"({"vram_reserve_mib": [5, 6], "min_free_vram_mib": 7})").json();
  CHECK(after.at("next_start").at("vram_reserve_mib") == json{5, 6});
  CHECK(daemon.ask("GET", "/v1/config").json().at("next_start").at("min_free_vram_mib") == 7);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CHECK(text.str() == "# mine\nvram_reserve_mib = [5, 6] # none\nmin_free_vram_mib = 7\n");
  const std::vector<std::pair<std::string, int>> refused{{R"({"parallel": 2})", 409}, {R"({"vram_reserve_mib": -1})", 400}, {R"({"vram_reserve_mib": true})", 400}, {R"({"vram_elastic": 1})", 400},
                                                         {R"({"vram_elastc": true})", 400}, {R"({"min_free_vram_mib": 8, "parallel": 2})", 409}, {"{}", 400}};
  for (const auto& [body, status] : refused) {
    CAPTURE(body);
    CHECK(daemon.ask("PATCH", "/v1/config", body).status == status);
  }
  std::ostringstream again;
  again << std::ifstream(file).rdbuf();
  CHECK(again.str() == text.str());
  CHECK(http_daemon().ask("PATCH", "/v1/config", R"({"vram_reserve_mib": 5})").status == 409);
}

TEST_CASE("a client of the bus that takes the name of one in the process is refused") {
  const http_daemon daemon;
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::dealer);
  client.set(zmq::sockopt::routing_id, std::string("\0inner-1", 8));
  client.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(patience).count()));
  client.set(zmq::sockopt::linger, 0);
  client.connect(daemon.endpoint());
  client.send(zmq::str_buffer("STATUS"), zmq::send_flags::none);
  zmq::message_t answer;
  REQUIRE(client.recv(answer));
  const auto reply = bus::decode_reply(bus::as_bytes(answer.to_string_view()));
  REQUIRE(reply);
  CHECK(std::get<error>(reply->body).code == errc::refused);
}

TEST_CASE("the first byte of GET /v1/vram comes soon while an answer streams") {
  const http_daemon daemon;
  http_connection reader(daemon.url());
  reader.send_request("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 2000, "stream": true})");
  REQUIRE(reader.receive_head().status == 200);
  std::atomic<bool> enough = false;
  auto reading = std::async(std::launch::async, [&] {
    int n_chunks = 0;
    while (!enough && !reader.receive_chunk().empty()) ++n_chunks;
    return n_chunks;
  });
  http_connection asking(daemon.url());
  std::vector<double> ms;
  for (int i = 0; i < 300; ++i) {
    const auto began = std::chrono::steady_clock::now();
    asking.send_request("GET", "/v1/vram");
    pollfd first_byte{asking.socket(), POLLIN, 0};
    ::poll(&first_byte, 1, 60'000);
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    REQUIRE(asking.receive().json().at("status") == "ok");
  }
  const bool still_streams = daemon.sessions() == 1;
  enough = true;
  std::sort(ms.begin(), ms.end());
  std::cout << "first byte of GET /v1/vram while an answer streams: median " << ms[150] << " ms, p99 " << ms[297] << " ms, worst " << ms.back()
            << " ms; chunks read meanwhile: " << reading.get() << (still_streams ? "" : " (the answer ended before)") << std::endl;
  CHECK(ms[150] < 50);  // on a machine that others use too
}

TEST_CASE("what is asked about memory during the load is answered at once with not_loaded, and holds after it") {
  bus::test::temporary_folder folder;
  engine_options options = demo_on(2);
  options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  options.from.state_dir = (folder / "state").string();
  options.from.http.listen = free_address();
  const std::string at = "http://" + options.from.http.listen;
  std::promise<void> loading;
  std::promise<void> seen;
  std::once_flag once;
  options.progress = [&](double) {  // the load is under way until this returns
    std::call_once(once, [&] {
      loading.set_value();
      seen.get_future().wait();
    });
  };
  auto asks = std::async(std::launch::async, [&] {
    loading.get_future().wait();
    const http_response early = http_connection(at).ask("POST", "/v1/vram", R"({"reserve_mib": 5})");
    const http_response health = http_connection(at).ask("GET", "/health");
    const http_response look = http_connection(at).ask("GET", "/v1/vram");
    const http_response answer = http_connection(at).ask("POST", "/v1/chat/completions", chat + "}");
    seen.set_value();
    const auto wrong = [](const http_response& what) { return "not as it should be: " + what.body; };
    if (early.status != 200 || early.json().at("status") != "not_loaded" || early.json().at("reserve_mib") != 5) return wrong(early);
    if (health.status != 503 || health.json().at("status") != "loading") return wrong(health);
    if (look.status != 200 || look.json().at("status") != "not_loaded") return wrong(look);
    if (answer.status != 503 || !answer.headers.contains("retry-after")) return wrong(answer);
    return std::string();
  });
  auto daemon = tools::daemon::start(options);
  CHECK(asks.get().empty());
  REQUIRE(daemon);
  CHECK(comes_true([&] {
    const json now = http_connection((*daemon)->url()).ask("GET", "/v1/vram").json();
    return now.at("status") == "ok" && now.at("gpus").at(0).at("reserve_mib") == 5 && now.at("gpus").at(1).at("reserve_mib") == 5;
  }));
}

TEST_CASE("what came over HTTP is in the journal, and its replay gives every reply again") {
  bus::test::temporary_folder folder;
  const auto journal = folder / "journal";
  {
    const http_daemon daemon([&](settings& from) { from.journal = journal.string(); });
    REQUIRE(daemon.ask("POST", "/v1/chat/completions", chat + R"(, "max_tokens": 30, "stream": true, "n": 2, "logprobs": true, "top_logprobs": 3})").status == 200);
    REQUIRE(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5})").status == 200);
    REQUIRE(daemon.ask("POST", "/v1/vram", R"({"reserve_mib": 5, "gpu": 9})").status == 400);
    REQUIRE(daemon.ask("POST", "/v1/completions", R"({"prompt": "In the", "max_tokens": 20})").status == 200);
    REQUIRE(daemon.ask("POST", "/v1/vram/leases", R"({"owner": "a", "gpu": 1, "mib": 2})", "Idempotency-Key: x\r\n").status == 201);
    REQUIRE(daemon.ask("GET", "/v1/vram").status == 200);
  }
  const auto report = replay(journal, in_virtual_time(EBB_DEMO_MODEL, ""));
  INFO((report ? std::string() : report.error().text));
  REQUIRE(report);
  CHECK(report->requests >= 7);
  CHECK(report->replies > 60);
  for (const auto& each : report->differences) CHECK(each.field + ": " + each.recorded + " is now " + each.replayed == "");
}
