#include "bus/codec.hpp"
#include "tests/bus/support/codec_invariants.hpp"
#include <catch2/catch.hpp>
#include <limits>
#include <rapidcheck/catch.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

command asked(std::string_view text) {
  const auto got = decode_request(as_bytes(text));
  if (!got) FAIL(got.error().why.text);
  CHECK(got->text);
  CHECK(got->id.empty());
  return got->command;
}

std::string refused(std::string_view text) {
  const auto got = decode_request(as_bytes(text));
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().text);
  return std::string(as_text(encode_reply(to_reply(got.error()), true)));
}

std::string answered(decltype(reply::body) body) { return std::string(as_text(encode_reply({{}, std::move(body)}, true))); }

card_report example_card() { return {0, 700, 96, 128, 402.5, 537, 701.125, 512, 0, 3.25}; }

}  // namespace

TEST_CASE("VRAM alone means the reserve of the start on every card") { CHECK(asked("VRAM") == command(vram{})); }

TEST_CASE("VRAM takes a reserve, and a device after a reserve or a dash") {
  CHECK(asked("VRAM 700") == command(vram{700, std::nullopt}));
  CHECK(asked("VRAM 700 1") == command(vram{700, 1}));
  CHECK(asked("VRAM - 1") == command(vram{std::nullopt, 1}));
  CHECK(asked("VRAM -") == command(vram{}));
  CHECK(asked("VRAM 4294967295") == command(vram{std::numeric_limits<std::uint32_t>::max(), std::nullopt}));
}

TEST_CASE("STATUS and CARDS take nothing") {
  CHECK(asked("STATUS") == command(status{}));
  CHECK(asked("CARDS") == command(cards{}));
  CHECK(refused("STATUS 1") == "ERR bad_value STATUS: nothing may follow here, but \"1\" does");
}

TEST_CASE("blanks between words and one line feed at the end do not matter") {
  CHECK(asked("VRAM   700\t1 \n") == command(vram{700, 1}));
  CHECK(asked("STATUS\r\n") == command(status{}));
  CHECK(refused("STATUS\n\n") == "ERR unknown_command there is no text command \"STATUS\\x0a\"; did you mean \"STATUS\"?");
}

TEST_CASE("a text command that is wrong is refused by the name of what is wrong") {
  const std::string wanted =
      "ERR bad_value VRAM: reserve_mib must be a whole number from 0 to 4294967295 or - for the start's reserve, not ";
  CHECK(refused("VRAM -1") == wanted + "\"-1\"");
  CHECK(refused("VRAM +1") == wanted + "\"+1\"");
  CHECK(refused("VRAM 1.5") == wanted + "\"1.5\"");
  CHECK(refused("VRAM 1e3") == wanted + "\"1e3\"");
  CHECK(refused("VRAM 4294967296") == wanted + "\"4294967296\"");
  CHECK(refused("VRAM 700MiB") == wanted + "\"700MiB\"");
  CHECK(refused("VRAM 700 -1") == "ERR bad_value VRAM: device must be a whole number from 0 to 4294967295, not \"-1\"");
  CHECK(refused("VRAM 700 -") == "ERR bad_value VRAM: device must be a whole number from 0 to 4294967295, not \"-\"");
  CHECK(refused("VRAM 700 1 2") == "ERR bad_value VRAM: nothing may follow here, but \"2\" does");
  CHECK(refused("vram 700") == "ERR unknown_command there is no text command \"vram\"; did you mean \"VRAM\"?");
  CHECK(refused("VRAM700") == "ERR unknown_command there is no text command \"VRAM700\"; did you mean \"VRAM\"?");
  CHECK(refused("HELLO") == "ERR unknown_command there is no text command \"HELLO\"; the text commands are VRAM, STATUS, CARDS");
}

TEST_CASE("an answer to VRAM is a line for each card and then VRAM-DONE") {
  card_report second = example_card();
  second.device = 1;
  second.short_mib = 0.0625;
  CHECK(answered(vram_report{{example_card(), second}}) ==
        "VRAM device=0 reserve_mib=700 expert_slots=96 expert_slots_full=128 expert_cache_mib=402.5 expert_cache_full_mib=537 "
        "vram_free_mib=701.125 prompt_chunk=512 short_mib=0 took_ms=3.25\n"
        "VRAM device=1 reserve_mib=700 expert_slots=96 expert_slots_full=128 expert_cache_mib=402.5 expert_cache_full_mib=537 "
        "vram_free_mib=701.125 prompt_chunk=512 short_mib=0.062 took_ms=3.25\n"
        "VRAM-DONE");
}

TEST_CASE("an answer to CARDS has the fields of VRAM and then its own") {
  CHECK(answered(cards_report{{{example_card(), "host", 0, 12, true, false, 10, 3, 1, 2, 4, 5, 402.5, 1024, {}, {}, {}, {}, {}}}}) ==
        "CARDS device=0 reserve_mib=700 expert_slots=96 expert_slots_full=128 expert_cache_mib=402.5 expert_cache_full_mib=537 "
        "vram_free_mib=701.125 prompt_chunk=512 short_mib=0 took_ms=3.25 kind=host layer_begin=0 layer_end=12 resident=true "
        "fast_path=false hits=10 misses=3 misses_cpu=1 misses_copied=2 flips=4 slots_to_fill=5 rss_mib=402.5 memory_mib=1024\nCARDS-DONE");
}

TEST_CASE("in an answer to CARDS a GPU is named, and a host card has no word of one") {
  const card_info host{example_card(), "host", 0, 12, true, false, 10, 3, 1, 2, 4, 5, 402.5, 1024, {}, {}, {}, {}, {}};
  CHECK_THAT(answered(cards_report{{host}}), Catch::EndsWith(" rss_mib=402.5 memory_mib=1024\nCARDS-DONE"));
  const card_info gpu{example_card(), "cuda", 0, 12, true, true, 10, 3, 1, 2, 4, 5, 0, 81920, 1, "Some GPU", "0000:17:00.0", "GPU-0011", 512.5};
  CHECK_THAT(answered(cards_report{{gpu}}),
             Catch::EndsWith(" rss_mib=0 memory_mib=81920 gpu=1 gpu_name=\"Some GPU\" pci_address=0000:17:00.0 uuid=GPU-0011 held_mib=512.5\nCARDS-DONE"));
}

TEST_CASE("an answer to STATUS quotes what is not one plain word") {
  status_report report;
  report.version = "0.1.0";
  report.state = "ready";
  report.model = "a \"big\" model";
  report.uptime_s = 12;
  report.prompt_tokens = 7;
  report.gap_counts = {3, 0, 1};
  report.gap_ms_sum = 45.5;
  CHECK(
      answered(report) ==
      "STATUS version=0.1.0 state=ready model=\"a \\\"big\\\" model\" architecture=\"\" layers=0 experts=0 context=0 sessions=0 "
      "sessions_max=0 waiting=0 uptime_s=12 tokens_generated=0 windows=0 rss_mib=0 rss_anon_mib=0 prompt_tokens=7 gap_counts=3,0,1 gap_ms_sum=45.5\nSTATUS-DONE");
}

TEST_CASE("an error is one line, whatever its text") {
  CHECK(answered(error{errc::busy, "first\nsecond\tthird \xff"}) == "ERR busy first second third \xef\xbf\xbd");
}

TEST_CASE("any text is taken or refused, and a refusal can be sent") {
  rc::prop("after a known command", [](std::string junk) {
    const std::string frame = *rc::gen::element<std::string>("VRAM", "STATUS", "CARDS", "V", "") + junk;
    check_any_request(as_bytes(frame));
  });
}
