#include "bus/to_json.hpp"
#include "bus/fields.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::bus;
using json = nlohmann::ordered_json;

namespace {

// The keys that the bus has for a message, in order.
template <class Message>
std::vector<std::string> bus_keys(const Message& message) {
  std::vector<std::string> keys;
  bus::for_each_field(message, [&](const auto& field, const auto&) { keys.emplace_back(field.key); });
  return keys;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

json of(decltype(bus::reply::body) body) { return to_json(bus::reply{{std::uint64_t{1}}, std::move(body)}); }

bus::card_report a_card() {
  return {.device = 1, .reserve_mib = 700, .expert_slots = 40, .expert_slots_full = 96, .expert_cache_mib = 4.875, .expert_cache_full_mib = 11.5,
          .vram_free_mib = 6.625, .prompt_chunk = 64, .short_mib = 0.25, .took_ms = 3.5};
}

}  // namespace

TEST_CASE("a card has the keys of the bus and its values, numbers as numbers") {
  const json card = to_json(a_card());
  CHECK(keys_of(card) == bus_keys(bus::card_report{}));
  CHECK(card.dump() ==
        R"({"device":1,"reserve_mib":700,"expert_slots":40,"expert_slots_full":96,"expert_cache_mib":4.875,"expert_cache_full_mib":11.5,)"
        R"("vram_free_mib":6.625,"prompt_chunk":64,"short_mib":0.25,"took_ms":3.5})");

  const bus::card_info info{.report = a_card(), .kind = "host", .layer_begin = 3, .layer_end = 6, .resident = true, .fast_path = false,
                            .hits = 5, .misses = 7, .misses_cpu = 3, .misses_copied = 4, .flips = 2, .slots_to_fill = 6, .rss_mib = 4.5, .gpu = 2, .gpu_name = "Some GPU", .pci_address = "0000:17:00.0",
                            .uuid = "GPU-0011", .held_mib = 512.5};
  const json whole = to_json(info);
  CHECK(keys_of(whole) == bus_keys(info));
  CHECK(whole["device"] == 1);
  CHECK(whole["kind"] == "host");
  CHECK(whole["layer_begin"] == 3);
  CHECK(whole["layer_end"] == 6);
  CHECK(whole["resident"] == true);
  CHECK(whole["fast_path"] == false);
  CHECK(whole["hits"] == 5);
  CHECK(whole["misses"] == 7);
  CHECK(whole["misses_cpu"] == 3);
  CHECK(whole["misses_copied"] == 4);
  CHECK(whole["flips"] == 2);
  CHECK(whole["slots_to_fill"] == 6);
  CHECK(whole["rss_mib"] == 4.5);
  CHECK(whole["gpu"] == 2);
  CHECK(whole["gpu_name"] == "Some GPU");
  CHECK(whole["pci_address"] == "0000:17:00.0");
  CHECK(whole["uuid"] == "GPU-0011");
  CHECK(whole["held_mib"] == 512.5);
  for (const char* key : {"gpu", "gpu_name", "pci_address", "uuid", "held_mib"}) CHECK_FALSE(to_json(bus::card_info{}).contains(key));
}

TEST_CASE("a status has the keys of the bus and its values") {
  const bus::status_report now{.version = "0.1.0", .state = "ready", .model = "m.gguf", .architecture = "qwen3moe", .layers = 6, .experts = 32,
                               .context = 2048, .sessions = 1, .sessions_max = 4, .waiting = 2, .uptime_s = 1.5, .tokens_generated = 9,
                               .windows = 8, .rss_mib = 70.5, .rss_anon_mib = 40.25, .prompt_tokens = 30, .gap_counts = {1, 0, 7},
                               .gap_ms_sum = 12.5};
  CHECK(keys_of(to_json(now)) == bus_keys(now));
  CHECK(to_json(now).dump() ==
        R"({"version":"0.1.0","state":"ready","model":"m.gguf","architecture":"qwen3moe","layers":6,"experts":32,"context":2048,"sessions":1,)"
        R"("sessions_max":4,"waiting":2,"uptime_s":1.5,"tokens_generated":9,"windows":8,"rss_mib":70.5,"rss_anon_mib":40.25,"prompt_tokens":30,"gap_counts":[1,0,7],)"
        R"("gap_ms_sum":12.5})");
}

TEST_CASE("a reply says its type first, and then what the bus says") {
  CHECK(of(bus::token{3, 77, " a \"word\"\n", {}, {}}).dump() == R"({"type":"token","index":3,"token":77,"text":" a \"word\"\n"})");
  const bus::token likely{4, 7, "a", -0.5f, {{7, "a", -0.5f}, {9, "b", -1.25f}}};
  CHECK(of(likely).dump() == R"({"type":"token","index":4,"token":7,"text":"a","logprob":-0.5,"top":[{"token":7,"text":"a","logprob":-0.5},)"
                             R"({"token":9,"text":"b","logprob":-1.25}]})");
  CHECK(of(bus::tokenized{{5, 6}, {"he", "y"}}).dump() == R"({"type":"tokenized","ids":[5,6],"pieces":["he","y"]})");
  CHECK(of(bus::detokenized{"hey"}).dump() == R"({"type":"detokenized","text":"hey"})");
  const json experts = of(bus::experts_report{{{1, 2, 4, 8, "ff01", "00112233445566778899aabbccddeeff", 6.5}}});
  CHECK(experts["type"] == "experts");
  CHECK(keys_of(experts["cards"][0]) == bus_keys(bus::expert_map{}));
  CHECK(experts["cards"][0]["resident"] == "ff01");
  CHECK(of(bus::cancelled{}).dump() == R"({"type":"cancelled"})");
  CHECK(of(error{errc::unknown_device, "no device 9"}).dump() == R"({"type":"error","code":"unknown_device","text":"no device 9"})");
  CHECK(of(bus::vram_report{{a_card()}}) == json{{"type", "vram"}, {"cards", json::array({to_json(a_card())})}});
  CHECK(of(bus::vram_report{}).dump() == R"({"type":"vram","cards":[]})");
  CHECK(of(bus::cards_report{{bus::card_info{}}})["cards"].size() == 1);
  CHECK(of(bus::status_report{})["type"] == "status");
  CHECK(of(bus::status_report{}).size() == bus_keys(bus::status_report{}).size() + 1);
}

TEST_CASE("the end of an answer leaves out a text and a hash that it does not have") {
  bus::done last{.text = {}, .finish = "stop", .prompt_tokens = 4, .generated_tokens = 2, .prompt_ms = 1.5, .decode_ms = 2.5, .tokens_per_s = 10.5,
                 .hit_rate = 0.5, .gap_ms_max = 1.25, .hash = {}};
  CHECK(of(last).dump() ==
        R"({"type":"done","finish":"stop","prompt_tokens":4,"generated_tokens":2,"prompt_ms":1.5,"decode_ms":2.5,"tokens_per_s":10.5,)"
        R"("hit_rate":0.5,"gap_ms_max":1.25})");
  last.text = "hello";
  last.hash = "00ff";
  CHECK(of(last)["text"] == "hello");
  CHECK(of(last)["hash"] == "00ff");
}

TEST_CASE("a line holds no line feed and is JSON, even where a path is no UTF-8") {
  const std::string line = to_line({{"model", "a\nb\xff.gguf"}, {"cards", 2}});
  CHECK(line.find('\n') == std::string::npos);
  const json read = json::parse(line, nullptr, false);
  REQUIRE_FALSE(read.is_discarded());
  CHECK(read["model"] == "a\nb\xef\xbf\xbd.gguf");
  CHECK(read["cards"] == 2);
}
