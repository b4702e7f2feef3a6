#include "kernels/matmul.hpp"
#include "kernels/dequantize.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/kernels/fixtures.hpp"
#include <numeric>

using namespace ebb::kernels;
using test::generator;

namespace {

constexpr float untouched = -12345.0f;

// y [n_y_rows, y_stride] of a job run by one instruction set; elements the job does not name stay `untouched`.
std::vector<float> run(cpu::isa which, matmul_job job, std::size_t n_y_rows, std::size_t y_stride) {
  std::vector<float> y(n_y_rows * y_stride, untouched);
  job.y = y.data();
  job.y_stride = y_stride;
  cpu::ops_for(which).matmul(job);
  return y;
}

// Everything a plain job (rows in order, all of the weight) needs.
struct problem {
  problem(generator& random, format type, std::uint32_t n_rows, std::uint32_t n_cols, std::uint32_t n_x_rows)
      : problem(random, type, n_rows, n_cols, n_x_rows, random.weights(type, std::size_t{n_rows} * n_cols)) {}
  problem(generator& random, format type, std::uint32_t n_rows, std::uint32_t n_cols, std::uint32_t n_x_rows, std::vector<std::byte> bytes)
      : data(std::move(bytes)), x(random, n_x_rows, n_cols), n(n_x_rows), w{data.data(), type, n_rows, n_cols} {}

  matmul_job job() const {
    matmul_job made;
    made.w = w;
    made.x = x.view(n_parts);
    made.n = n;
    made.row_end = w.n_rows;
    return made;
  }
  std::vector<float> run(cpu::isa which) const { return ::run(which, job(), n, w.n_rows); }

  std::vector<std::byte> data;
  test::owned_activations x;
  std::uint32_t n;
  weights w;
  std::uint32_t n_parts = 1;  // 2: with residuals
};

// A width the format allows, `blocks` times its block; float formats get one that is no multiple of 8 now and then.
std::uint32_t width(format type, std::uint32_t blocks) {
  const std::uint32_t values = info(type).values_per_block;
  return values == 1 ? blocks * 13 : blocks * values;
}

bool quantised(format type) { return info(type).values_per_block > 1; }

// The weights with the sign of every minimum such that it adds to |d * q| rather than cancelling it, and dequantised to magnitudes.
// Pre: d > 0 in formats with a minimum.
std::vector<double> magnitudes(const weights& w, std::uint32_t row) {
  std::vector<std::byte> bytes(w.data + row * w.row_bytes(), w.data + (row + 1) * w.row_bytes());
  const bool subtracts = w.type == format::q4_k || w.type == format::q5_k;
  const bool adds = w.type == format::q4_1 || w.type == format::q5_1;
  for (std::size_t block = 0; (subtracts || adds) && block < bytes.size(); block += info(w.type).bytes_per_block) {
    std::byte& sign = bytes[block + 3];  // of the half at byte 2
    sign = subtracts ? sign | std::byte{0x80} : sign & std::byte{0x7f};
  }
  std::vector<float> adding(w.n_cols);
  dequantize(w.type, bytes.data(), w.n_cols, adding.data());
  std::vector<double> values;
  for (const float value : adding) values.push_back(std::fabs(value));
  return values;
}

void make_factors_positive(format type, std::vector<std::byte>& bytes) {
  const std::size_t d = type == format::q6_k ? offsetof(block_q6_k, d) : 0;
  for (std::size_t block = 0; block < bytes.size(); block += info(type).bytes_per_block) bytes[block + d + 1] &= std::byte{0x7f};
}

}  // namespace

TEST_CASE("every instruction set gives the same bits as scalar, for every format, width and number of rows") {
  generator random(1);
  for (const cpu::isa which : test::vector_isas()) {
    for (const format type : test::formats_with_kernels()) {
      for (const std::uint32_t blocks : {1u, 2u, 3u, 7u, 8u, 9u, 17u, 31u}) {
        for (const std::uint32_t n : {1u, 2u, 3u, 4u, 5u, 8u, 13u}) {
          problem p(random, type, 1 + random.below(19), width(type, blocks), n);
          p.n_parts = 1 + random.below(2);
          INFO(to_string(which) << " " << info(type).name << " [" << p.w.n_rows << ", " << p.w.n_cols << "] n " << n << " parts " << p.n_parts);
          CHECK(test::same_bits(p.run(which), p.run(cpu::isa::scalar)));
        }
      }
    }
  }
}

TEST_CASE("the same bits where rows and columns are so many that the loops cut them into groups") {
  generator random(2);
  for (const cpu::isa which : test::vector_isas()) {
    for (const format type : test::formats_with_kernels()) {
      problem wide(random, type, 3, 64 * 256 + 256, 11), tall(random, type, 201, 256, 19);
      wide.n_parts = tall.n_parts = 1 + random.below(2);
      INFO(to_string(which) << " " << info(type).name);
      CHECK(test::same_bits(wide.run(which), wide.run(cpu::isa::scalar)));
      CHECK(test::same_bits(tall.run(which), tall.run(cpu::isa::scalar)));
    }
  }
}

TEST_CASE("the golden blocks times activations give the same bits in every instruction set") {
  generator random(3);
  for (const cpu::isa which : test::vector_isas()) {
    for (const format type : test::formats_with_kernels()) {
      if (type == format::f32) continue;  // has no golden blocks
      const std::vector<std::byte> blocks = test::read_data("quant/" + std::string(info(type).name) + ".blocks");
      const std::uint32_t n_rows = 4, n_cols = 96 / n_rows * info(type).values_per_block;
      const problem p(random, type, n_rows, n_cols, 3, blocks);
      INFO(to_string(which) << " " << info(type).name);
      CHECK(test::same_bits(p.run(which), p.run(cpu::isa::scalar)));
    }
  }
}

TEST_CASE("the extremes of every stored integer and activation give the same bits") {
  generator random(4);
  for (const cpu::isa which : test::vector_isas()) {
    for (const format type : test::formats_with_kernels()) {
      if (!quantised(type)) continue;
      for (const int byte : {0x00, 0x80, 0x7f, 0xff, 0xf0, 0x0f, 0x55, 0xaa}) {
        const std::uint32_t n_rows = 2, n_cols = 512;
        std::vector<std::byte> same_byte(bytes_of(type, n_rows * n_cols), static_cast<std::byte>(byte));
        const std::size_t d = type == format::q6_k ? offsetof(block_q6_k, d) : 0;
        for (std::size_t block = 0; block < same_byte.size(); block += info(type).bytes_per_block) {
          same_byte[block + d + 1] = std::byte{0x2c};  // a d of ordinary size; a minimum keeps its bits, unless they are no number
          if (byte == 0x7f || byte == 0xff) same_byte[block + 3] = type == format::q6_k ? same_byte[block + 3] : std::byte{0x2b};
        }
        problem p(random, type, n_rows, n_cols, 3, same_byte);
        for (std::size_t i = 0; i < p.x.q.size(); ++i) p.x.q[i] = i < n_cols ? 127 : i < 2 * n_cols ? -127 : i % 2 == 0 ? 127 : -127;
        for (std::size_t b = 0; b < p.x.sum.size(); ++b) p.x.sum[b] = std::accumulate(&p.x.q[b * 32], &p.x.q[b * 32] + 32, 0);
        INFO(to_string(which) << " " << info(type).name << " bytes " << byte);
        CHECK(test::same_bits(p.run(which), p.run(cpu::isa::scalar)));
      }
    }
  }
}

TEST_CASE("activations that are all zero, or smaller than any step, give zeros") {
  generator random(5);
  for (const cpu::isa which : cpu::available()) {
    for (const format type : test::formats_with_kernels()) {
      if (!quantised(type)) continue;
      problem p(random, type, 5, 512, 2);
      std::fill(p.x.x.begin(), p.x.x.end(), 0.0f);
      std::fill(p.x.x.begin(), p.x.x.begin() + 512, 1e-40f);
      cpu::ops_for(which).quantize(p.x.x.data(), p.x.x.size(), p.x.q.data(), p.x.d.data(), p.x.sum.data());
      for (const float y : p.run(which)) CHECK(y == 0.0f);
    }
  }
}

TEST_CASE("a lane that underflows to -0 keeps its sign to the end of a float row") {
  for (const cpu::isa which : cpu::available()) {
    const std::vector<float> w(9, 1e-30f), x(9, -1e-30f);  // the first eight products round to -0, the ninth too
    std::vector<float> y(1);
    matmul_job job;
    job.w = {reinterpret_cast<const std::byte*>(w.data()), format::f32, 1, 9};
    job.x.x = x.data();
    job.x.n_cols = 9;
    job.n = job.row_end = 1;
    job.y = y.data();
    job.y_stride = 1;
    cpu::ops_for(which).matmul(job);
    CHECK(y[0] == 0.0f);
    CHECK(std::signbit(y[0]));
  }
}

TEST_CASE("an output depends on neither the range of rows nor the other rows of activations") {
  generator random(6);
  for (const cpu::isa which : cpu::available()) {
    for (const format type : test::formats_with_kernels()) {
      const problem p(random, type, 83, width(type, 9), 7);
      const std::vector<float> whole = p.run(which);
      for (int trial = 0; trial < 5; ++trial) {
        matmul_job part = p.job();
        part.row_begin = random.below(83);
        part.row_end = part.row_begin + random.below(84 - part.row_begin);
        const std::uint32_t only = random.below(7);
        part.x_row = part.y_row = &only;
        part.n = 1;
        const std::vector<float> y = run(which, part, 7, 83);
        INFO(to_string(which) << " " << info(type).name << " rows " << part.row_begin << " to " << part.row_end << " of x " << only);
        for (std::size_t at = 0; at < y.size(); ++at) {
          const bool named = at / 83 == only && at % 83 >= part.row_begin && at % 83 < part.row_end;
          REQUIRE(test::same_bits({&y[at], 1}, {named ? &whole[at] : &untouched, 1}));
        }
      }
    }
  }
}

TEST_CASE("rows are read and written where x_row and y_row say, with any stride") {
  generator random(7);
  for (const cpu::isa which : cpu::available()) {
    for (const format type : test::formats_with_kernels()) {
      const problem p(random, type, 10, width(type, 8), 6);
      const std::vector<float> plain = p.run(which);
      const std::vector<std::uint32_t> x_row = {5, 0, 0, 3, 2, 5, 1, 4, 4}, y_row = {8, 1, 0, 2, 11, 4, 6, 5, 3};
      matmul_job scattered = p.job();
      scattered.n = static_cast<std::uint32_t>(x_row.size());
      scattered.x_row = x_row.data();
      scattered.y_row = y_row.data();
      const std::vector<float> y = run(which, scattered, 12, 17);
      INFO(to_string(which) << " " << info(type).name);
      std::vector<float> expected(12 * 17, untouched);
      for (std::size_t i = 0; i < x_row.size(); ++i) std::copy_n(&plain[x_row[i] * 10], 10, &expected[y_row[i] * 17]);
      CHECK(test::same_bits(y, expected));
    }
  }
}

TEST_CASE("a job without rows of weights or of activations touches nothing") {
  generator random(8);
  for (const cpu::isa which : cpu::available()) {
    for (const format type : test::formats_with_kernels()) {
      const problem p(random, type, 3, width(type, 8), 2);
      matmul_job no_weights = p.job(), no_activations = p.job();
      no_weights.row_begin = no_weights.row_end = 2;
      no_activations.n = 0;
      for (const float y : run(which, no_weights, 2, 3)) CHECK(y == untouched);
      for (const float y : run(which, no_activations, 2, 3)) CHECK(y == untouched);
    }
  }
}

TEST_CASE("nothing is read behind the last block of a tensor nor behind the activations") {
  generator random(9);
  for (const cpu::isa which : cpu::available()) {
    for (const format type : test::formats_with_kernels()) {
      for (const std::uint32_t blocks : {1u, 3u, 8u, 11u}) {
        const problem p(random, type, 5, width(type, blocks), 3);
        test::guarded<std::byte> data{p.data};
        test::guarded<float> x{p.x.x}, d{p.x.d}, y(3 * 5);
        test::guarded<std::int8_t> q{p.x.q};
        test::guarded<std::int32_t> sum{p.x.sum};
        matmul_job job = p.job();
        job.w.data = data.data();
        job.x = {x.data(), {{q.data(), d.data(), sum.data()}, {}}, p.w.n_cols};
        job.y = y.data();
        job.y_stride = 5;
        cpu::ops_for(which).matmul(job);
        INFO(to_string(which) << " " << info(type).name << " width " << p.w.n_cols);
        CHECK(test::same_bits({y.data(), 15}, p.run(cpu::isa::scalar)));
      }
    }
  }
}

TEST_CASE("a row may begin at any byte") {
  generator random(10);
  for (const cpu::isa which : cpu::available()) {
    for (const format type : test::formats_with_kernels()) {
      const problem p(random, type, 3, width(type, 8), 2);
      std::vector<std::byte> shifted(p.data.size() + 1);
      std::copy(p.data.begin(), p.data.end(), shifted.begin() + 1);
      matmul_job job = p.job();
      job.w.data = shifted.data() + 1;
      CHECK(test::same_bits(run(which, job, 2, 3), p.run(cpu::isa::scalar)));
    }
  }
}

// Bound, with u = 2^-24 and S = sum over columns of (|d * scale * q| + |minimum|) * |x|, which bounds the sum of |terms|:
//   quantised: integer sums are exact. A term's factor dw * dx is rounded once, each of the lane's fmafs once, the tree thrice:
//     (fmafs a lane + 4) u S. The oracle's weights are rounded up to three times when they are dequantised: 3 u S more.
//   float: (columns / 8 + 3) u S; the oracle rounds nothing.
TEST_CASE("every format agrees with dequantised weights times activations in double, within the bound of its roundings") {
  generator random(11);
  for (const format type : test::formats_with_kernels()) {
    for (const std::uint32_t blocks : {1u, 8u, 24u}) {
      const std::uint32_t n_cols = width(type, blocks), n_rows = 6, n_parts = 1 + random.below(2);
      std::vector<std::byte> bytes = random.weights(type, std::size_t{n_rows} * n_cols);
      if (quantised(type)) make_factors_positive(type, bytes);
      problem p(random, type, n_rows, n_cols, 2, bytes);
      p.n_parts = n_parts;
      activations x = p.x.view(n_parts);
      if (quantised(type)) x.x = nullptr;
      const double fmafs = quantised(type) ? 2 * n_parts * (n_cols / 256 + 1) : n_cols / 8 + 1;
      const std::vector<float> y = p.run(cpu::isa::scalar);
      for (std::uint32_t i = 0; i < p.n; ++i) {
        const std::vector<double> values = reference::values_of(x, i);
        for (std::uint32_t r = 0; r < n_rows; ++r) {
          const std::vector<double> of_row = magnitudes(p.w, r);
          double s = 0.0;
          for (std::size_t c = 0; c < n_cols; ++c) s += of_row[c] * std::fabs(values[c]);
          INFO(info(type).name << " width " << n_cols << " row " << r << " of x " << i);
          CHECK(std::fabs(y[i * n_rows + r] - reference::dot(p.w, r, values)) <= test::slack * (fmafs + 7) * test::unit * s);
        }
      }
    }
  }
}

TEST_CASE("with residuals a product is nearer to that of the activations themselves by two orders of magnitude") {
  generator random(12);
  for (const format type : test::formats_with_kernels()) {
    if (!quantised(type)) continue;
    problem p(random, type, 64, width(type, 256 / info(type).values_per_block), 4);
    double error_squared[2] = {};
    for (const std::uint32_t n_parts : {1u, 2u}) {
      p.n_parts = n_parts;
      const std::vector<float> y = p.run(cpu::isa::scalar);
      for (std::uint32_t i = 0; i < p.n; ++i) {
        const std::vector<double> values(p.x.x.begin() + i * p.w.n_cols, p.x.x.begin() + (i + 1) * p.w.n_cols);
        for (std::uint32_t r = 0; r < p.w.n_rows; ++r) error_squared[n_parts - 1] += std::pow(y[i * p.w.n_rows + r] - reference::dot(p.w, r, values), 2);
      }
    }
    INFO(info(type).name);
    CHECK(std::sqrt(error_squared[1]) < 0.01 * std::sqrt(error_squared[0]));
  }
}
