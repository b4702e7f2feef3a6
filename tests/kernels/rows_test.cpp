#include "kernels/exact_math.hpp"
#include "kernels/half.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace ebb::kernels;
using test::generator;

namespace {

const cpu::ops& scalar() { return cpu::ops_for(cpu::isa::scalar); }

struct quantised_row {
  std::vector<std::int8_t> q;
  std::vector<float> d;
  std::vector<std::int32_t> sum;
};

quantised_row quantize(const cpu::ops& by, const std::vector<float>& x) {
  quantised_row row{std::vector<std::int8_t>(x.size()), std::vector<float>(x.size() / 32), std::vector<std::int32_t>(x.size() / 32)};
  by.quantize(x.data(), x.size(), row.q.data(), row.d.data(), row.sum.data());
  return row;
}

// Sizes around the eight lanes and some of real models.
const std::size_t sizes[] = {1, 3, 7, 8, 9, 16, 31, 128, 256, 769, 2048};

}  // namespace

TEST_CASE("quantize gives the same bits in every instruction set, whatever the magnitude") {
  generator random(1);
  for (const cpu::isa which : test::vector_isas()) {
    for (const float magnitude : {1.0f, 1e-3f, 1e-30f, 1e-36f, 1e-38f, 1e-42f, 1e30f, 0.0f}) {
      std::vector<float> x = random.normals(32 * 9);
      for (float& value : x) value *= magnitude;
      const quantised_row a = quantize(cpu::ops_for(which), x), b = quantize(scalar(), x);
      INFO(to_string(which) << " magnitude " << magnitude);
      CHECK(a.q == b.q);
      CHECK(test::same_bits(a.d, b.d));
      CHECK(a.sum == b.sum);
    }
  }
}

TEST_CASE("residual gives the same bits in every instruction set, also in place, and is what quantising left over") {
  generator random(21);
  for (const cpu::isa which : cpu::available()) {
    std::vector<float> x = random.normals(32 * 9);
    const quantised_row row = quantize(scalar(), x);
    std::vector<float> expected(x.size()), r(x.size());
    scalar().residual(x.data(), row.q.data(), row.d.data(), x.size(), expected.data());
    cpu::ops_for(which).residual(x.data(), row.q.data(), row.d.data(), x.size(), r.data());
    CHECK(test::same_bits(r, expected));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i] - static_cast<double>(row.d[i / 32]) * row.q[i];
      REQUIRE(std::fabs(r[i] - exact) <= test::unit * std::fabs(exact));
    }
    cpu::ops_for(which).residual(x.data(), row.q.data(), row.d.data(), x.size(), x.data());
    CHECK(test::same_bits(x, expected));
  }
}

// Bound: half a step, plus the rounding of x / d, which is below 127 * 2^-24 steps, plus that of d, at most as much again.
TEST_CASE("a quantised value is within half a step of the value") {
  generator random(2);
  for (const cpu::isa which : cpu::available()) {
    const std::vector<float> x = random.normals(32 * 50);
    const quantised_row row = quantize(cpu::ops_for(which), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double step = row.d[i / 32];
      REQUIRE(std::fabs(x[i] - step * row.q[i]) <= (0.5 + 2 * 127 * test::unit) * step);
      REQUIRE(std::abs(row.q[i]) <= 127);
    }
  }
}

TEST_CASE("quantize rounds the middle between two steps to the even one") {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f, x[1] = 0.5f, x[2] = 1.5f, x[3] = -0.5f, x[4] = -2.5f, x[5] = 126.5f, x[6] = -127.0f;
  for (const cpu::isa which : cpu::available()) {
    const quantised_row row = quantize(cpu::ops_for(which), x);
    CHECK(row.d[0] == 1.0f);
    CHECK(std::vector<std::int8_t>(row.q.begin(), row.q.begin() + 7) == std::vector<std::int8_t>{127, 0, 2, 0, -2, 126, -127});
    CHECK(row.sum[0] == 126);
  }
}

TEST_CASE("a block of zeros, and one too small for a normal step, quantises to zeros") {
  std::vector<float> x(64, 0.0f);
  for (std::size_t i = 32; i < 64; ++i) x[i] = (i % 2 == 0 ? 1 : -1) * 190 * 0x1p-149f;  // divided by 127 it would round up to one step
  for (const cpu::isa which : cpu::available()) {
    const quantised_row row = quantize(cpu::ops_for(which), x);
    CHECK(row.q == std::vector<std::int8_t>(64, 0));
    CHECK(row.d == std::vector<float>{0.0f, 0.0f});
    CHECK(row.sum == std::vector<std::int32_t>{0, 0});
  }
}

TEST_CASE("rms_norm gives the same bits in every instruction set, in place or not") {
  generator random(3);
  for (const cpu::isa which : test::vector_isas()) {
    for (const std::size_t n : sizes) {
      const std::vector<float> x = random.normals(n), weight = random.normals(n);
      std::vector<float> expected(n), y(n), in_place = x;
      scalar().rms_norm(x.data(), weight.data(), n, 1e-6f, expected.data());
      cpu::ops_for(which).rms_norm(x.data(), weight.data(), n, 1e-6f, y.data());
      cpu::ops_for(which).rms_norm(in_place.data(), weight.data(), n, 1e-6f, in_place.data());
      INFO(to_string(which) << " n " << n);
      CHECK(test::same_bits(y, expected));
      CHECK(test::same_bits(in_place, expected));
    }
  }
}

// Bound, relative: the sum of squares rounds once a term of a lane and thrice in the tree, the mean and eps once each; the root halves
// that and rounds, as do the reciprocal and the two products: (n / 8 + 1 + 5) / 2 + 4 roundings.
TEST_CASE("rms_norm agrees with its twin") {
  generator random(4);
  for (const std::size_t n : sizes) {
    const std::vector<float> x = random.normals(n), weight = random.normals(n);
    std::vector<float> y(n);
    scalar().rms_norm(x.data(), weight.data(), n, 1e-6f, y.data());
    const std::vector<double> twin = reference::rms_norm(x.data(), weight.data(), n, 1e-6f);
    const double bound = test::slack * (static_cast<double>(n / 8 + 6) / 2 + 4) * test::unit;
    for (std::size_t i = 0; i < n; ++i) CHECK(std::fabs(y[i] - twin[i]) <= bound * std::fabs(twin[i]));
  }
}

TEST_CASE("rope gives the same bits in every instruction set, and leaves what lies behind the pairs") {
  generator random(5);
  for (const cpu::isa which : test::vector_isas()) {
    for (const std::size_t half : sizes) {
      std::vector<float> cos(half), sin(half), expected = random.normals(2 * half + 5), x = expected;
      rope_angles(random.below(100000), 1e6, half, cos.data(), sin.data());
      const std::vector<float> behind(x.end() - 5, x.end());
      scalar().rope(expected.data(), cos.data(), sin.data(), half);
      cpu::ops_for(which).rope(x.data(), cos.data(), sin.data(), half);
      INFO(to_string(which) << " half " << half);
      CHECK(test::same_bits(x, expected));
      CHECK(std::vector<float>(x.end() - 5, x.end()) == behind);
    }
  }
}

// Bound: one product rounded, then the fmaf: 2 u (|a| + |b|) for a sum of the exact terms a and b.
TEST_CASE("rope agrees with its twin") {
  generator random(6);
  const std::size_t half = 64;
  std::vector<float> cos(half), sin(half), x = random.normals(2 * half);
  rope_angles(4321, 1e4, half, cos.data(), sin.data());
  const std::vector<float> before = x;
  const std::vector<double> twin = reference::rope(x.data(), cos.data(), sin.data(), half);
  scalar().rope(x.data(), cos.data(), sin.data(), half);
  for (std::size_t i = 0; i < half; ++i) {
    const double first = std::fabs(before[i] * cos[i]) + std::fabs(before[i + half] * sin[i]);
    const double second = std::fabs(before[i + half] * cos[i]) + std::fabs(before[i] * sin[i]);
    CHECK(std::fabs(x[i] - twin[i]) <= test::slack * 2 * test::unit * first);
    CHECK(std::fabs(x[i + half] - twin[i + half]) <= test::slack * 2 * test::unit * second);
  }
}

TEST_CASE("rope angles begin unturned, turn the first pair by the position, and later pairs ever more slowly") {
  float cos[4], sin[4];
  rope_angles(0, 1e4, 4, cos, sin);
  for (int i = 0; i < 4; ++i) CHECK((cos[i] == 1.0f && sin[i] == 0.0f));
  rope_angles(3, 1e4, 4, cos, sin);
  for (int i = 0; i < 4; ++i) {
    const double theta = 3.0 / std::pow(10.0, i);
    CHECK(cos[i] == static_cast<float>(std::cos(theta)));
    CHECK(sin[i] == static_cast<float>(std::sin(theta)));
  }
}

TEST_CASE("swiglu, add and combine give the same bits in every instruction set") {
  generator random(7);
  for (const cpu::isa which : test::vector_isas()) {
    const cpu::ops& by = cpu::ops_for(which);
    for (const std::size_t n : sizes) {
      INFO(to_string(which) << " n " << n);
      std::vector<float> gate = random.normals(n), up = random.normals(n), expected(n), y(n);
      for (float& g : gate) g *= 40.0f;  // beyond the range of exact_exp too
      scalar().swiglu(gate.data(), up.data(), n, expected.data());
      by.swiglu(gate.data(), up.data(), n, y.data());
      CHECK(test::same_bits(y, expected));
      std::vector<float> in_place = gate;
      by.swiglu(in_place.data(), up.data(), n, in_place.data());
      CHECK(test::same_bits(in_place, expected));
      in_place = up;
      by.swiglu(gate.data(), in_place.data(), n, in_place.data());
      CHECK(test::same_bits(in_place, expected));

      std::vector<float> sum = up, expected_sum = up;
      scalar().add(gate.data(), n, expected_sum.data());
      by.add(gate.data(), n, sum.data());
      CHECK(test::same_bits(sum, expected_sum));

      for (const std::size_t top_k : {1, 2, 8}) {
        const std::vector<float> out = random.normals(top_k * (n + 3)), weight = random.normals(top_k);
        scalar().combine(out.data(), n + 3, weight.data(), top_k, n, expected.data());
        by.combine(out.data(), n + 3, weight.data(), top_k, n, y.data());
        CHECK(test::same_bits(y, expected));
      }
    }
  }
}

// Bound, relative: 1 + e^-x carries exp's error and rounds once, the quotient and the product round once each.
TEST_CASE("swiglu agrees with its twin, and is as good as 0 where the gate is far below 0") {
  generator random(8);
  std::vector<float> gate = random.normals(1000), up = random.normals(1000), y(1000);
  for (float& g : gate) g *= 20.0f;
  scalar().swiglu(gate.data(), up.data(), 1000, y.data());
  const std::vector<double> twin = reference::swiglu(gate.data(), up.data(), 1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    CHECK(std::fabs(y[i] - twin[i]) <= test::slack * (test::exp_error + 3 * test::unit) * std::fabs(twin[i]));
  }
  const float far = -1e4f, one = 1.0f;
  float result;
  scalar().swiglu(&far, &one, 1, &result);
  CHECK(result <= 0.0f);
  CHECK(result > -1e-33f);
}

// Bound: one rounding a term, relative to the sum of magnitudes.
TEST_CASE("combine agrees with its twin and adds in rank order") {
  generator random(9);
  const std::size_t n = 100, top_k = 8;
  const std::vector<float> out = random.normals(top_k * n), weight = random.normals(top_k);
  std::vector<float> y(n);
  scalar().combine(out.data(), n, weight.data(), top_k, n, y.data());
  const std::vector<double> twin = reference::combine(out.data(), n, weight.data(), top_k, n);
  for (std::size_t i = 0; i < n; ++i) {
    double magnitude = 0.0;
    for (std::size_t k = 0; k < top_k; ++k) magnitude += std::fabs(weight[k] * out[k * n + i]);
    CHECK(std::fabs(y[i] - twin[i]) <= test::slack * static_cast<double>(top_k) * test::unit * magnitude);
  }
  const float cancelling[3] = {1e8f, 1.0f, -1e8f}, ones[3] = {1.0f, 1.0f, 1.0f};
  for (const cpu::isa which : cpu::available()) {
    cpu::ops_for(which).combine(cancelling, 1, ones, 3, 1, y.data());
    CHECK(y[0] == 0.0f);  // 1 is lost in 1e8; in another order it would remain
  }
}

TEST_CASE("to_half gives the same bits in every instruction set, and those of float_to_half") {
  generator random(10);
  for (const cpu::isa which : cpu::available()) {
    for (const std::size_t n : sizes) {
      std::vector<float> x = random.normals(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], static_cast<int>(random.below(50)) - 30);  // subnormal to infinite
      if (n > 8) x[0] = 65519.9f, x[1] = 65520.0f, x[2] = 0x1p-25f, x[3] = 0x1.8p-24f, x[4] = -0.0f, x[5] = INFINITY;
      std::vector<std::uint16_t> y(n);
      cpu::ops_for(which).to_half(x.data(), n, y.data());
      for (std::size_t i = 0; i < n; ++i) REQUIRE(y[i] == float_to_half(x[i]));
    }
  }
}

TEST_CASE("no operation on rows reads or writes behind its arrays") {
  generator random(11);
  for (const cpu::isa which : cpu::available()) {
    const cpu::ops& by = cpu::ops_for(which);
    for (const std::size_t n : {1, 7, 8, 13}) {
      test::guarded<float> a{random.normals(n)}, b{random.normals(n)}, pairs{random.normals(2 * n)}, y(n), rows{random.normals(3 * n)};
      test::guarded<std::uint16_t> halves(n);
      by.rms_norm(a.data(), b.data(), n, 1e-6f, y.data());
      by.swiglu(a.data(), b.data(), n, y.data());
      by.add(a.data(), n, y.data());
      by.rope(pairs.data(), a.data(), b.data(), n);
      by.combine(rows.data(), n, a.data(), n < 3 ? 1 : 3, n, y.data());
      by.to_half(a.data(), n, halves.data());
      CHECK(halves.data()[n - 1] == float_to_half(a.data()[n - 1]));
    }
  }
}
