// What an append costs the thread that calls it. Not run by ctest: bus_test "[benchmark]" prints it.
#include "bus/journal_writer.hpp"
#include "tests/bus/support/journal_files.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

namespace {

using namespace ebb::bus;
using namespace ebb::bus::test;
using std::chrono::steady_clock;

// As a busy daemon appends: some at a time, as many as a window has rows, then none while the next window runs.
constexpr std::size_t burst = 64;
constexpr std::size_t bursts = 500;
constexpr std::chrono::milliseconds window{2};

std::vector<std::int64_t> time_appends(journal_writer& writer, std::size_t frame_bytes) {
  const bytes frame(frame_bytes);
  const client_id client{"\x01\x02\x03\x04\x05"};
  std::vector<std::int64_t> took_ns;
  for (std::size_t index = 0; index < bursts * burst; ++index) {
    if (index % burst == 0) std::this_thread::sleep_for(window);
    const auto begin = steady_clock::now();
    writer.append(journal_direction::out, client, frame);
    took_ns.push_back((steady_clock::now() - begin).count());
  }
  return took_ns;
}

}  // namespace

TEST_CASE("what an append costs its caller", "[.][benchmark]") {
  for (const std::size_t frame_bytes : {100, 4096}) {
    const temporary_folder folder;
    std::vector<std::int64_t> took_ns;
    {
      const auto writer = journal_writer::open(folder / "j", journal_from_now("benchmark", {}));
      REQUIRE(writer);
      took_ns = time_appends(**writer, frame_bytes);
    }
    std::sort(took_ns.begin(), took_ns.end());
    const auto share = [&](double part) {
      return static_cast<long long>(took_ns[static_cast<std::size_t>(part * double(took_ns.size() - 1))]);
    };
    std::printf(
        "append of %zu bytes: median %lld ns, 90 %% %lld, 99 %% %lld, largest %lld (%zu of them, two looks at the clock included)\n",
        frame_bytes, share(0.5), share(0.9), share(0.99), share(1), took_ns.size());
    CHECK(read_journal(folder / "j").records.size() == 1 + took_ns.size());
  }
}
