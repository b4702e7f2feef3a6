// Memory that goes and comes back a thousand times, and other programs that use it meanwhile.
#include "tests/gpu/engine/full_gpu.hpp"
#include "tests/gpu/engine/steady_talk.hpp"
#include "tools/process_memory.hpp"
#include "tools/synthetic_file.hpp"
#include <cstdio>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

constexpr std::uint32_t n_tokens = 100;

// Some layers of a large model, whose cache is large enough for another program's context: 1.4 GiB. The file goes with this.
class cut_model {
 public:
  cut_model()
      : path_(std::filesystem::path(ebb::test::where("EBB_GPU_SCRATCH", "/tmp")) /
              ("ebb-gpu-cut-" + std::to_string(::getpid()) + ".gguf")) {
    synthetic_options cut;
    cut.n_layers = 4;
    const auto model = make_synthetic(cut);
    if (!model) throw std::runtime_error(model.error().text);
    const auto written = write_synthetic(
        *model, path_, {.overwrite = true, .n_threads = std::max(1u, std::thread::hardware_concurrency()), .progress = {}, .stop = {}});
    if (!written) throw std::runtime_error(written.error().text);
  }
  ~cut_model() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  cut_model(const cut_model&) = delete;
  cut_model& operator=(const cut_model&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

settings full_card(const cut_model& model) {
  settings from = settings_on({gpu_card()}, model.path());
  from.vram_segment_bytes = 64 * mib;
  from.vram_reserve_mib = {128};
  return from;
}

constexpr std::uint64_t left_free_mib = 192;  // on the full card: above the reserve, far below a context
constexpr std::uint32_t neighbour_mib = 256;
constexpr std::uint32_t context_mib = 700;  // for its context: 305 to 613 were seen

}  // namespace

TEST_CASE(
    "a thousand times lent to the floor and taken back while answers stream, the driver has what it had and the process has not grown",
    "[gpu][engine]") {
  const std::string expected = hash_on_host(greedy(n_tokens));
  served with(settings_on({gpu_card()}));
  steady_talk talk(with, greedy(n_tokens), expected);
  const auto lend_and_take_back = [&](std::uint32_t times) {
    for (std::uint32_t time = 0; time < times; ++time) {
      const auto lent = with.bring_to(0, 0);
      if (lent.expert_cache_mib != 0) FAIL("after " << time << " cycles the cache kept " << lent.expert_cache_mib << " MiB");
      const auto back = with.take_back(0);
      if (back.expert_slots != back.expert_slots_full) FAIL("after " << time << " cycles only " << back.expert_slots << " slots came back");
      talk.go_on();
    }
  };
  lend_and_take_back(100);  // what is made at first use is there then
  const double free_before_mib = with.card(0).report.vram_free_mib;
  const double rss_before_mib = read_process_memory().rss_mib;
  lend_and_take_back(1000);
  const double free_after_mib = with.card(0).report.vram_free_mib;
  const double rss_after_mib = read_process_memory().rss_mib;
  CHECK(talk.finish());
  std::printf("1000 cycles beside %zu answers: the driver's free figure went from %.2f to %.2f MiB, the process from %.1f to %.1f MiB\n",
              talk.n_answers(), free_before_mib, free_after_mib, rss_before_mib, rss_after_mib);
  CHECK(std::abs(free_after_mib - free_before_mib) <= segment_mib);
  CHECK(rss_after_mib - rss_before_mib <= 8);
}

TEST_CASE(
    "another program uses memory that was lent to it in the middle of an answer; afterwards the cache is whole again, and the hash "
    "unchanged",
    "[gpu][engine][neighbour]") {
  const cut_model model;
  const std::string expected = hash_on_host(greedy(n_tokens), model.path());
  served with(full_card(model));
  REQUIRE(with.card(0).resident);
  const double full_mib = with.card(0).report.expert_cache_mib;
  const ballast rest(left_free_mib);
  steady_talk talk(with, greedy(n_tokens), expected);
  talk.wait_for_tokens(5);

  neighbour other(neighbour_mib);
  const auto lease = with.lend(0, neighbour_mib + context_mib);
  const double free_mib = with.card(0).report.vram_free_mib;
  CHECK(free_mib >= neighbour_mib + context_mib + 128);
  CHECK(with.card(0).report.expert_cache_mib < full_mib);
  other.go();
  REQUIRE(talk.goes_on_until([&] { return other.has_memory() || other.ended(); }));
  INFO(other.process().err());
  REQUIRE(other.has_memory());
  const double used_mib = free_mib - with.card(0).report.vram_free_mib;
  std::printf("a neighbour of %u MiB took %.1f MiB: %.1f of them for its context\n", neighbour_mib, used_mib, used_mib - neighbour_mib);
  CHECK(used_mib >= neighbour_mib);
  talk.wait_for_tokens(20);  // beside it

  other.process().close_input();
  REQUIRE(talk.goes_on_until([&] { return other.ended(); }));
  CHECK(other.process().exit_code() == 0);
  with.release(lease.leases.at(0).lease_id);
  CHECK(talk.goes_on_until([&] { return with.card(0).report.expert_cache_mib == full_mib; }));
  CHECK(talk.finish());
}

TEST_CASE("without a lease another program finds a full card out of memory and ends, and the engine answers on",
          "[gpu][engine][neighbour]") {
  const cut_model model;
  const std::string expected = hash_on_host(greedy(n_tokens), model.path());
  served with(full_card(model));
  REQUIRE(with.card(0).resident);
  const ballast rest(left_free_mib);
  steady_talk talk(with, greedy(n_tokens), expected);
  neighbour other(neighbour_mib);
  other.go();
  REQUIRE(talk.goes_on_until([&] { return other.has_memory() || other.ended(); }));
  CHECK_FALSE(other.has_memory());
  INFO(other.process().err());
  CHECK(other.process().exit_code() == ebb::test::neighbour_out_of_memory);
  talk.wait_for_tokens(20);
  CHECK(talk.finish());
  CHECK(with.card(0).resident);
}

TEST_CASE("a holder of a lease that is killed gives the memory back, its own and what was lent, and the engine answers on",
          "[gpu][engine][neighbour]") {
  const cut_model model;
  const std::string expected = hash_on_host(greedy(n_tokens), model.path());
  served with(full_card(model));
  const double full_mib = with.card(0).report.expert_cache_mib;
  const ballast rest(left_free_mib);
  const double free_before_mib = with.card(0).report.vram_free_mib;
  steady_talk talk(with, greedy(n_tokens), expected);
  neighbour other(neighbour_mib);
  with.lend(0, neighbour_mib + context_mib, static_cast<std::uint32_t>(other.process().pid()));
  other.go();
  REQUIRE(talk.goes_on_until([&] { return other.has_memory() || other.ended(); }));
  INFO(other.process().err());
  REQUIRE(other.has_memory());
  REQUIRE(with.n_leases() == 1);

  other.process().send(SIGKILL);
  CHECK(talk.goes_on_until([&] { return other.ended() && with.n_leases() == 0; }));
  CHECK(talk.goes_on_until([&] { return with.card(0).report.expert_cache_mib == full_mib; }));
  CHECK(std::abs(with.card(0).report.vram_free_mib - free_before_mib) <= 64);
  CHECK(talk.finish());
}
