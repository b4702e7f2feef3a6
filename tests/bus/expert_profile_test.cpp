#include "bus/expert_profile.hpp"
#include <catch2/catch.hpp>
#include <limits>

namespace ebb::bus {
namespace {

expert_profile some_profile() { return {"model.gguf", 123'456'789'012, 2, 3, {0, 1.5F, 2e9F, 0.25F, 1e-9F, 7}}; }

TEST_CASE("a profile is read as it was written") {
  const auto read = decode_profile(encode_profile(some_profile()));
  REQUIRE(read);
  CHECK(*read == some_profile());
}

TEST_CASE("a profile that was cut off anywhere is refused") {
  const bytes whole = encode_profile(some_profile());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(decode_profile(bytes_view(whole).first(size)));
  }
}

TEST_CASE("a profile with another number of heats than experts, or with one that is no heat, is refused by name") {
  expert_profile what = some_profile();
  what.heat.pop_back();
  auto read = decode_profile(encode_profile(what));
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::bad_value);
  CHECK_THAT(read.error().text, Catch::Contains("6 numbers, not of 5"));
  for (const float wrong : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    what = some_profile();
    what.heat[4] = wrong;
    read = decode_profile(encode_profile(what));
    REQUIRE_FALSE(read);
    CHECK_THAT(read.error().text, Catch::Contains("heat[4]"));
  }
}

}  // namespace
}  // namespace ebb::bus
