#include "kernels/half.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace ebb::kernels;
using test::generator;

namespace {

struct head {
  head(generator& random, std::size_t positions, std::size_t dim)
      : n_positions(positions),
        head_dim(dim),
        q(random.normals(dim)),
        k(random.halves(positions * dim)),
        v(random.halves(positions * dim)) {}

  std::vector<float> run(cpu::isa which) const {
    std::vector<float> scores(n_positions), out(head_dim);
    cpu::ops_for(which).attention(q.data(), k.data(), v.data(), n_positions, head_dim, scale(), scores.data(), out.data());
    return out;
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  std::size_t n_positions, head_dim;
  std::vector<float> q;
  std::vector<std::uint16_t> k, v;
};

const std::size_t position_counts[] = {1, 2, 7, 8, 9, 33, 255, 256, 257, 500, 1030};
const std::size_t dims[] = {8, 24, 64, 72, 128, 256};

}  // namespace

TEST_CASE("attention gives the same bits in every instruction set") {
  generator random(1);
  for (const cpu::isa which : test::vector_isas()) {
    for (const std::size_t n_positions : position_counts) {
      for (const std::size_t head_dim : dims) {
        const head h(random, n_positions, head_dim);
        INFO(to_string(which) << " positions " << n_positions << " dim " << head_dim);
        CHECK(test::same_bits(h.run(which), h.run(cpu::isa::scalar)));
      }
    }
  }
}

TEST_CASE("attention over one position is that position's value") {
  generator random(2);
  const head h(random, 1, 64);
  for (const cpu::isa which : cpu::available()) {
    const std::vector<float> out = h.run(which);
    for (std::size_t i = 0; i < 64; ++i) CHECK(out[i] == half_to_float(h.v[i]));
  }
}

TEST_CASE("the values of positions with equal scores are averaged, and a score far below the others counts nothing") {
  for (const cpu::isa which : cpu::available()) {
    head h([] {
      generator random(3);
      return head(random, 3, 8);
    }());
    std::fill(h.q.begin(), h.q.end(), 1.0f);
    for (std::size_t i = 0; i < 24; ++i) {
      h.k[i] = float_to_half(i < 16 ? 1.0f : -1000.0f);
      h.v[i] = float_to_half(i < 8 ? 1.0f : i < 16 ? 2.0f : 60000.0f);
    }
    for (const float y : h.run(which)) CHECK(y == 1.5f);
  }
}

// Bound, with u = 2^-24. A score is off by (head_dim / 8 + 4) u * scale * sum |q k|, the largest one too, and their difference is
// rounded once; exp turns that into a relative error of p and adds its own. The shares p / sum carry it twice. The sum rounds
// n / 8 + 3 times, the mix n times, the division once; all relative to sum p |v| / sum p.
TEST_CASE("attention agrees with its twin") {
  generator random(4);
  for (const std::size_t n_positions : position_counts) {
    for (const std::size_t head_dim : dims) {
      const head h(random, n_positions, head_dim);
      double dot_magnitude = 0.0, largest_value = 0.0;
      for (std::size_t t = 0; t < n_positions; ++t) {
        double sum = 0.0;
        for (std::size_t i = 0; i < head_dim; ++i) {
          sum += std::fabs(h.q[i] * half_to_float(h.k[t * head_dim + i]));
          largest_value = std::max<double>(largest_value, std::fabs(half_to_float(h.v[t * head_dim + i])));
        }
        dot_magnitude = std::max(dot_magnitude, sum * h.scale());
      }
      const double of_score = static_cast<double>(head_dim / 8 + 4) * test::unit * dot_magnitude;
      const double of_p = 2 * of_score + 2 * dot_magnitude * test::unit + test::exp_error;
      const double roundings = static_cast<double>(n_positions + n_positions / 8 + 1 + 4);
      const double bound = test::slack * (2 * of_p + roundings * test::unit) * largest_value;
      const std::vector<float> out = h.run(cpu::isa::scalar);
      const std::vector<double> twin =
          reference::attention(h.q.data(), h.k.data(), h.v.data(), n_positions, head_dim, static_cast<double>(h.scale()));
      INFO("positions " << n_positions << " dim " << head_dim);
      for (std::size_t i = 0; i < head_dim; ++i) CHECK(std::fabs(out[i] - twin[i]) <= bound);
    }
  }
}

TEST_CASE("attention reads and writes nothing behind its arrays") {
  generator random(5);
  for (const cpu::isa which : cpu::available()) {
    for (const std::size_t n_positions : {1, 5, 8, 11}) {
      const head h(random, n_positions, 40);
      test::guarded<float> q{h.q}, scores(n_positions), out(40);
      test::guarded<std::uint16_t> k{h.k}, v{h.v};
      cpu::ops_for(which).attention(q.data(), k.data(), v.data(), n_positions, 40, h.scale(), scores.data(), out.data());
      CHECK(test::same_bits({out.data(), 40}, h.run(cpu::isa::scalar)));
    }
  }
}
