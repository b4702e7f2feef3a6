#include "kernels/cpu/ops.hpp"
#include "config/result.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace ebb;
using namespace ebb::kernels::cpu;

TEST_CASE("scalar is always there and first, and every set that is there has all operations") {
  const std::vector<isa> sets = available();
  REQUIRE_FALSE(sets.empty());
  CHECK(sets.front() == isa::scalar);
  for (const isa which : sets) {
    const ops& table = ops_for(which);
    CHECK(table.which == which);
    CHECK((table.matmul && table.quantize && table.rms_norm && table.rope && table.attention && table.swiglu && table.add &&
           table.combine && table.to_half));
  }
}

TEST_CASE("without EBB_ISA the fastest set is chosen, with it the one it names") {
  CHECK(choose("").value() == available().back());
  for (const isa which : available()) CHECK(choose(to_string(which)).value() == which);
}

TEST_CASE("a word that is no instruction set is refused with the words there are") {
  for (const char* word : {"sse2", "AVX2", "avx2 ", "0"}) {
    const result<isa> chosen = choose(word);
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().code == errc::bad_value);
    CHECK_THAT(chosen.error().text, Catch::Contains(word) && Catch::Contains("EBB_ISA") && Catch::Contains("scalar, avx2 or avx512"));
  }
}

TEST_CASE("a set that the processor lacks is refused with those it has") {
  const std::vector<isa> sets = available();
  for (const isa which : {isa::avx2, isa::avx512}) {
    if (std::find(sets.begin(), sets.end(), which) != sets.end()) continue;
    const result<isa> chosen = choose(to_string(which));
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().code == errc::refused);
    CHECK_THAT(chosen.error().text, Catch::Contains(std::string(to_string(which))) && Catch::Contains("scalar"));
  }
}
