#include "kernels/dequantize.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace ebb::kernels;

TEST_CASE("every format dequantises the golden blocks to their exact values") {
  for (const format type : test::formats_with_kernels()) {
    if (type == format::f32) continue;  // has nothing to dequantise; the next case looks at it
    INFO(info(type).name);
    const std::string name = "quant/" + std::string(info(type).name);
    const std::vector<std::byte> blocks = test::read_data(name + ".blocks"), values = test::read_data(name + ".f32");
    const std::size_t n_values = values.size() / sizeof(float);
    REQUIRE(blocks.size() == bytes_of(type, n_values));
    std::vector<float> y(n_values);
    dequantize(type, blocks.data(), n_values, y.data());
    CHECK(std::memcmp(y.data(), values.data(), values.size()) == 0);
  }
}

TEST_CASE("float weights pass dequantize as they are, from any byte on") {
  const float stored[3] = {1.5f, -0.0f, 3e38f};
  std::byte unaligned[13];
  std::memcpy(unaligned + 1, stored, sizeof(stored));
  float y[3];
  dequantize(format::f32, unaligned + 1, 3, y);
  CHECK(std::memcmp(y, stored, sizeof(stored)) == 0);
}
