#include "bus/http/lease_keys.hpp"
#include "config/limits.hpp"
#include <catch2/catch.hpp>

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::http;

namespace {

lease of(std::uint32_t mib, std::optional<std::uint32_t> wait_s = {}) {
  lease wanted;
  wanted.action = "acquire";
  wanted.owner = "a";
  wanted.device = 0;
  wanted.mib = mib;
  wanted.wait_s = wait_s;
  return wanted;
}

const lease_keys::is_held held = [](std::uint64_t) { return true; };
const lease_keys::is_held ended = [](std::uint64_t) { return false; };

}  // namespace

TEST_CASE("a key stands for one body from the first request on until its lease has ended") {
  lease_keys keys;
  REQUIRE(keys.begin("k", of(3), held));
  CHECK_FALSE(keys.begin("k", of(4), ended));  // the first is not answered yet
  CHECK(keys.begin("k", of(3, 60), held));     // the same but for its patience
  CHECK(keys.begin("other", of(4), held));
  keys.end("k", 7);
  keys.end("k", {});
  CHECK_FALSE(keys.begin("k", of(4), held));
  CHECK(keys.begin("k", of(3), held));
  keys.end("k", 7);
  CHECK(keys.begin("k", of(4), ended));
}

TEST_CASE("a key whose request got no lease is free") {
  lease_keys keys;
  REQUIRE(keys.begin("k", of(3), held));
  keys.end("k", {});
  CHECK(keys.begin("k", of(4), held));
}

TEST_CASE("keys of leases that have ended are forgotten when there are many, and those of held ones are not") {
  lease_keys keys;
  int asked = 0;
  const lease_keys::is_held only_first = [&](std::uint64_t id) {
    ++asked;
    return id == 0;
  };
  for (std::uint64_t i = 0; i < 4 * limits::http_lease_keys_max; ++i) {
    REQUIRE(keys.begin(std::to_string(i), of(3), only_first));
    keys.end(std::to_string(i), i);
  }
  CHECK(asked >= static_cast<int>(3 * limits::http_lease_keys_max));
  CHECK_FALSE(keys.begin("0", of(4), only_first));
}
