#include "kernels/format.hpp"
#include "tests/kernels/fixtures.hpp"
#include <set>

using namespace ebb::kernels;

TEST_CASE("every format of the table is known by its own number, and a number of none is not") {
  std::set<std::string_view> names;
  for (std::uint32_t number = 0; number < 64; ++number) {
    if (!format_known(number)) continue;
    CHECK(static_cast<std::uint32_t>(info(static_cast<format>(number)).type) == number);
    CHECK(names.insert(info(static_cast<format>(number)).name).second);
  }
  CHECK(names.size() == 32);
  for (const std::uint32_t removed : {4u, 5u, 31u, 33u, 36u, 38u, 63u, 0xffffffffu}) CHECK_FALSE(format_known(removed));
}

TEST_CASE("a stored block is as large as the format says") {
  struct {
    std::uint32_t values, bytes;
    std::string_view name;
  } const published[] = {{1, 4, "F32"},      {1, 2, "F16"},        {1, 2, "BF16"},      {32, 18, "Q4_0"},     {32, 20, "Q4_1"},
                         {32, 22, "Q5_0"},   {32, 24, "Q5_1"},     {32, 34, "Q8_0"},    {256, 84, "Q2_K"},    {256, 110, "Q3_K"},
                         {256, 144, "Q4_K"}, {256, 176, "Q5_K"},   {256, 210, "Q6_K"},  {256, 66, "IQ2_XXS"}, {256, 74, "IQ2_XS"},
                         {256, 82, "IQ2_S"}, {256, 98, "IQ3_XXS"}, {256, 110, "IQ3_S"}, {256, 50, "IQ1_S"},   {256, 56, "IQ1_M"},
                         {32, 18, "IQ4_NL"}, {256, 136, "IQ4_XS"}, {32, 17, "MXFP4"}};
  for (const auto& [values, bytes, name] : published) {
    INFO(name);
    bool found = false;
    for (std::uint32_t number = 0; number < 64 && !found; ++number) {
      if (!format_known(number) || info(static_cast<format>(number)).name != name) continue;
      found = true;
      CHECK(info(static_cast<format>(number)).values_per_block == values);
      CHECK(info(static_cast<format>(number)).bytes_per_block == bytes);
      CHECK(bytes_of(static_cast<format>(number), std::size_t{values} * 7) == std::size_t{bytes} * 7);
    }
    CHECK(found);
  }
}

TEST_CASE("the formats with kernels are the eleven that the kernels are written for") {
  CHECK(test::formats_with_kernels() == std::vector<format>{format::f32, format::f16, format::q4_0, format::q4_1, format::q5_0,
                                                            format::q5_1, format::q8_0, format::q4_k, format::q5_k, format::q6_k,
                                                            format::bf16});
}
