// Every kernel against the CPU's scalar code, which is the definition: same bits.
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/router.hpp"
#include "kernels/cuda/rows.hpp"
#include "kernels/cuda/upload.hpp"
#include "kernels/router.hpp"
#include "tests/gpu/gpu_memory.hpp"
#include <limits>
#include <numeric>

using namespace ebb::kernels;
using namespace ebb::kernels::test;

namespace {

const cpu::ops& scalar = cpu::ops_for(cpu::isa::scalar);
constexpr cudaStream_t stream = nullptr;

std::vector<float> product(const std::vector<std::byte>& w, format type, std::uint32_t n_rows, const activations& x, std::uint32_t n) {
  std::vector<float> y(std::size_t{n} * n_rows);
  scalar.matmul({.w = {w.data(), type, n_rows, x.n_cols}, .x = x, .n = n, .row_end = n_rows, .y = y.data(), .y_stride = n_rows});
  return y;
}

cuda::device_weights on_device(const on_gpu<std::byte>& w, format type, std::uint32_t n_rows, std::uint32_t n_cols) {
  return {reinterpret_cast<const std::uint8_t*>(w.data()), type, n_rows, n_cols};
}

std::uint32_t shortest_row(format type) { return std::max(32u, info(type).values_per_block); }

}  // namespace

TEST_CASE("a product with few rows has the CPU's bits in every format", "[gpu][kernels]") {
  generator random(1);
  for (const format type : formats_with_kernels()) {
    for (const std::uint32_t n_cols : {shortest_row(type), 768u, 2048u}) {
      for (const std::uint32_t n : {1u, 2u, 3u, 4u, 5u, 8u}) {
        for (const std::uint32_t n_rows : {16u, 45u}) {
          INFO(info(type).name << " " << n_rows << " x " << n_cols << ", " << n << " rows");
          const auto w = random.weights(type, std::size_t{n_rows} * n_cols);
          const owned_activations x(random, n, n_cols);
          const on_gpu<std::byte> device_w(w);
          const activations_on_gpu device_x(x);
          for (const std::uint32_t n_parts : {1u, 2u}) {
            const on_gpu<float> y(std::size_t{n} * n_rows);
            const cuda::matvec_job job{on_device(device_w, type, n_rows, n_cols), y.data()};
            cuda::matvec(&job, 1, device_x.view(n_parts == 2), n, stream);
            CHECK(same_bits(y.read(), product(w, type, n_rows, x.view(n_parts), n)));
          }
        }
      }
    }
  }
}

TEST_CASE("a product with many rows has the CPU's bits in every format", "[gpu][kernels]") {
  generator random(2);
  for (const format type : formats_with_kernels()) {
    for (const std::uint32_t n_cols : {shortest_row(type), 768u, 2048u}) {
      for (const std::uint32_t n : {1u, 7u, 32u, 77u}) {
        for (const std::uint32_t n_rows : {32u, 72u}) {
          INFO(info(type).name << " " << n_rows << " x " << n_cols << ", " << n << " rows");
          const auto w = random.weights(type, std::size_t{n_rows} * n_cols);
          const owned_activations x(random, n, n_cols);
          const on_gpu<std::byte> device_w(w);
          const activations_on_gpu device_x(x);
          const on_gpu<float> y(std::size_t{n} * n_rows);
          cuda::matmul({.w = on_device(device_w, type, n_rows, n_cols), .x = device_x.view(), .n = n, .y = y.data()}, stream);
          CHECK(same_bits(y.read(), product(w, type, n_rows, x.view(2), n)));
        }
      }
    }
  }
}

TEST_CASE("tiles send rows to the weights of their expert and back to their places", "[gpu][kernels]") {
  generator random(3);
  constexpr std::uint32_t n_rows = 64, n_cols = 256, n = 50;
  const auto w = random.weights(format::q4_k, std::size_t{2} * n_rows * n_cols);
  const owned_activations x(random, n, n_cols);
  const on_gpu<std::byte> device_w(w);
  const activations_on_gpu device_x(x);
  std::vector<std::uint32_t> x_row(n), y_row(n);
  std::iota(x_row.begin(), x_row.end(), 0u);
  std::reverse(x_row.begin(), x_row.end());
  for (std::uint32_t i = 0; i < n; ++i) y_row[i] = (i * 7) % n;
  const auto* base = reinterpret_cast<const std::uint8_t*>(device_w.data());
  const std::size_t matrix_bytes = bytes_of(format::q4_k, std::size_t{n_rows} * n_cols);
  const std::vector<cuda::matmul_tile> tiles{{base, 0, 20}, {base + matrix_bytes, 20, 30}};
  const on_gpu<cuda::matmul_tile> device_tiles(tiles);
  const on_gpu<std::uint32_t> device_x_row(x_row), device_y_row(y_row);
  const on_gpu<float> y(std::size_t{n} * n_rows);
  cuda::matmul({.w = {nullptr, format::q4_k, n_rows, n_cols}, .x = device_x.view(), .tiles = device_tiles.data(), .n_tiles = 2,
                .x_row = device_x_row.data(), .y_row = device_y_row.data(), .y = y.data()},
               stream);
  std::vector<float> expected(std::size_t{n} * n_rows);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::byte* matrix = w.data() + (i < 20 ? 0 : matrix_bytes);
    scalar.matmul({.w = {matrix, format::q4_k, n_rows, n_cols}, .x = x.view(2), .x_row = &x_row[i], .y_row = &y_row[i], .n = 1, .row_end = n_rows,
                   .y = expected.data(), .y_stride = n_rows});
  }
  CHECK(same_bits(y.read(), expected));
}

TEST_CASE("a norm is quantised to the CPU's bits, and so is a product of gate and up", "[gpu][kernels]") {
  generator random(4);
  for (const std::uint32_t n_cols : {32u, 96u, 2048u, 4096u}) {
    constexpr std::uint32_t n = 3;
    const std::vector<float> x = random.normals(n * n_cols), weight = random.normals(n_cols);
    std::vector<float> normed(n * n_cols);
    for (std::uint32_t row = 0; row < n; ++row) scalar.rms_norm(&x[row * n_cols], weight.data(), n_cols, 1e-6f, &normed[row * n_cols]);
    const on_gpu<float> device_x(x), device_weight(weight);
    const activations_on_gpu out(n, n_cols);
    cuda::norm_and_quantise(device_x.data(), nullptr, device_weight.data(), 1e-6f, n, out.view(), stream);
    check_quantised(out, normed);

    const std::vector<float> up = random.normals(n * n_cols);
    std::vector<float> hidden(n * n_cols);
    scalar.swiglu(x.data(), up.data(), hidden.size(), hidden.data());
    const on_gpu<float> device_up(up);
    const activations_on_gpu device_hidden(n, n_cols);
    cuda::swiglu_and_quantise(device_x.data(), device_up.data(), n, device_hidden.view(), stream);
    check_quantised(device_hidden, hidden);
  }
}

TEST_CASE("values of every size are quantised as on the CPU: zeros, subnormals and large ones", "[gpu][kernels]") {
  std::vector<float> x(32 * 8, 0.0f), ones(32 * 8, 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float scales[] = {0.0f, 1e-42f, 1e-38f, 1.5e-36f, 1.0f, 1e20f, 3e38f, 0.5f};
    x[i] = scales[i / 32] * (static_cast<float>(i % 32) / 31.0f - 0.5f);
  }
  std::vector<float> hidden(x.size());
  scalar.swiglu(ones.data(), x.data(), x.size(), hidden.data());
  const on_gpu<float> gate(ones), up(x);
  const activations_on_gpu out(1, static_cast<std::uint32_t>(x.size()));
  cuda::swiglu_and_quantise(gate.data(), up.data(), 1, out.view(), stream);
  check_quantised(out, hidden);
}

TEST_CASE("the rank of experts and their weights are the CPU's, ties included", "[gpu][kernels]") {
  generator random(5);
  for (const auto& [n_experts, top_k] : {std::pair{4u, 2u}, {60u, 4u}, {128u, 8u}, {512u, 10u}}) {
    constexpr std::uint32_t n = 9;
    std::vector<float> logits = random.normals(n * n_experts);
    for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = 0.25f;  // many equals
    for (std::size_t i = 0; i < n_experts; ++i) logits[i] = -1.0f;         // nothing but equals in the first row
    std::vector<std::uint32_t> picked(n * top_k);
    std::vector<float> weight(n * top_k);
    for (std::uint32_t row = 0; row < n; ++row) route(&logits[row * n_experts], n_experts, top_k, &picked[row * top_k], &weight[row * top_k]);
    const on_gpu<float> device_logits(logits), device_weight(weight.size());
    const on_gpu<std::uint32_t> device_picked(picked.size());
    cuda::rank_experts({device_logits.data(), n, n_experts, top_k, device_picked.data(), device_weight.data()}, stream);
    CHECK(device_picked.read() == picked);
    CHECK(same_bits(device_weight.read(), weight));
  }
}

TEST_CASE("the outputs of a row's experts are added in rank order", "[gpu][kernels]") {
  generator random(6);
  constexpr std::uint32_t n = 3, top_k = 5, n_cols = 100;
  const std::vector<float> out = random.normals(n * top_k * n_cols), weight = random.normals(n * top_k);
  std::vector<float> x = random.normals(n * n_cols);
  const on_gpu<float> device_out(out), device_weight(weight), device_x(x);
  cuda::combine_and_add(device_out.data(), device_weight.data(), top_k, n, n_cols, device_x.data(), stream);
  std::vector<float> sum(n_cols);
  for (std::uint32_t row = 0; row < n; ++row) {
    scalar.combine(&out[row * top_k * n_cols], n_cols, &weight[row * top_k], top_k, n_cols, sum.data());
    scalar.add(sum.data(), n_cols, &x[row * n_cols]);
  }
  CHECK(same_bits(device_x.read(), x));
}

TEST_CASE("attention has the CPU's bits at every length, for every grouping of heads", "[gpu][kernels]") {
  generator random(7);
  for (const auto& [n_heads, n_kv_heads, head_dim] : {std::tuple{8u, 1u, 64u}, {8u, 2u, 128u}, {6u, 3u, 32u}, {3u, 3u, 256u}}) {
    for (const std::uint32_t length : {1u, 9u, 255u, 256u, 257u, 700u}) {
      INFO(n_heads << " heads, " << n_kv_heads << " of keys, of " << head_dim << ", " << length << " positions");
      const std::uint32_t context = 768, half = head_dim / 2, n_rows = 2;
      const std::uint32_t positions[] = {length - 1, std::max(length, 3u) - 3};
      cuda::kv_layer kv{nullptr, nullptr, n_kv_heads, context, head_dim};
      std::vector<std::uint16_t> k = random.halves(std::size_t{2} * n_kv_heads * context * head_dim), v = random.halves(k.size());
      const std::vector<std::uint16_t> k_before = k, v_before = v;
      const std::vector<float> q = random.normals(n_rows * n_heads * head_dim), fresh_k = random.normals(n_rows * n_kv_heads * head_dim),
                               fresh_v = random.normals(fresh_k.size()), q_norm = random.normals(head_dim), k_norm = random.normals(head_dim);
      std::vector<float> cos(n_rows * half), sin(n_rows * half);
      std::vector<window_row> rows;
      for (std::uint32_t row = 0; row < n_rows; ++row) {
        rows.push_back({row, positions[row]});
        rope_angles(positions[row], 1e6, half, &cos[row * half], &sin[row * half]);
      }
      const on_gpu<std::uint16_t> device_k(k), device_v(v);
      const on_gpu<float> device_q(q), device_fresh_k(fresh_k), device_fresh_v(fresh_v), device_q_norm(q_norm), device_k_norm(k_norm), device_cos(cos),
          device_sin(sin);
      const on_gpu<window_row> device_rows(rows);
      kv.k = device_k.data();
      kv.v = device_v.data();
      cuda::turn_and_store({device_q.data(), device_fresh_k.data(), device_fresh_v.data(), device_q_norm.data(), device_k_norm.data(), 1e-6f, device_cos.data(),
                            device_sin.data(), device_rows.data(), n_rows, n_heads, kv},
                           stream);
      const std::size_t heads = n_rows * n_heads;
      const std::uint32_t chunks = context / attention_chunk;
      const on_gpu<float> scores(heads * context), chunk_max(heads * chunks), chunk_sum(heads * chunks), chunk_out(heads * chunks * head_dim);
      const on_gpu<std::uint32_t> arrivals(std::vector<std::uint32_t>(heads, 0));
      const activations_on_gpu out(n_rows, n_heads * head_dim);
      const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
      cuda::attention({device_q.data(), kv, device_rows.data(), n_rows, n_heads, (length + attention_chunk - 1) / attention_chunk, context, scale,
                       scores.data(), chunk_max.data(), chunk_sum.data(), chunk_out.data(), arrivals.data(), out.view()},
                      stream);

      std::vector<float> turned = q, expected(heads * head_dim), scratch(context);
      for (std::uint32_t row = 0; row < n_rows; ++row) {
        for (std::uint32_t head = 0; head < n_kv_heads; ++head) {
          std::vector<float> key(&fresh_k[(row * n_kv_heads + head) * head_dim], &fresh_k[(row * n_kv_heads + head) * head_dim] + head_dim);
          scalar.rms_norm(key.data(), k_norm.data(), head_dim, 1e-6f, key.data());
          scalar.rope(key.data(), &cos[row * half], &sin[row * half], half);
          scalar.to_half(key.data(), head_dim, &k[kv.at(row, head, positions[row])]);
          scalar.to_half(&fresh_v[(row * n_kv_heads + head) * head_dim], head_dim, &v[kv.at(row, head, positions[row])]);
        }
        for (std::uint32_t head = 0; head < n_heads; ++head) {
          float* query = &turned[(row * n_heads + head) * head_dim];
          scalar.rms_norm(query, q_norm.data(), head_dim, 1e-6f, query);
          scalar.rope(query, &cos[row * half], &sin[row * half], half);
          const std::size_t from = kv.at(row, head / (n_heads / n_kv_heads), 0);
          scalar.attention(query, &k[from], &v[from], positions[row] + 1, head_dim, scale, scratch.data(), &expected[(row * n_heads + head) * head_dim]);
        }
      }
      CHECK(device_k.read() == k);
      CHECK(device_v.read() == v);
      check_quantised(out, expected);
      CHECK(arrivals.read() == std::vector<std::uint32_t>(heads, 0));

      if (length > attention_chunk) continue;  // the way that turns and attends in one launch
      const on_gpu<std::uint16_t> again_k(k_before), again_v(v_before);
      const on_gpu<float> again_q(q);
      kv.k = again_k.data();
      kv.v = again_v.data();
      const activations_on_gpu again(n_rows, n_heads * head_dim);
      cuda::turn_and_attend({again_q.data(), device_fresh_k.data(), device_fresh_v.data(), device_q_norm.data(), device_k_norm.data(), 1e-6f, device_cos.data(),
                             device_sin.data(), device_rows.data(), n_rows, n_heads, kv},
                            {again_q.data(), kv, device_rows.data(), n_rows, n_heads, 1, attention_chunk, scale, nullptr, nullptr, nullptr, nullptr, nullptr,
                             again.view()},
                            stream);
      check_quantised(again, expected);
      CHECK(again_k.read() == k);
      CHECK(again_v.read() == v);
    }
  }
}

TEST_CASE("what is posted to the CPU is all of the rows, for widths that are no multiple of 128 too, and a NaN picks experts that exist", "[gpu][kernels]") {
  generator random(8);
  for (const std::uint32_t d_model : {96u, 160u, 256u, 2880u}) {
    for (const std::uint32_t n : {1u, 3u}) {
      INFO(d_model << " wide, " << n << " rows");
      constexpr std::uint32_t n_experts = 40, top_k = 6;
      const owned_activations x(random, n, d_model);
      const activations_on_gpu normed(x);
      std::vector<float> logits = random.normals(n * n_experts);
      for (std::uint32_t e = 0; e < n_experts; ++e) {
        if (n == 3) logits[e] = std::numeric_limits<float>::quiet_NaN();
      }
      const on_gpu<float> device_logits(logits), weight(n * top_k);
      const on_gpu<std::uint32_t> picked(n * top_k), number(std::vector<std::uint32_t>(1, 7));
      std::vector<std::uint32_t> all_on_cpu(cuda::doorbell_misses_max + 1);
      std::iota(all_on_cpu.begin(), all_on_cpu.end(), 0u);
      const on_gpu<std::uint32_t> cpu_of(all_on_cpu);
      const on_gpu<cuda::device_expert> experts(std::vector<cuda::device_expert>(n_experts, cuda::device_expert{{nullptr, nullptr, nullptr}, 0}));
      const on_gpu<cuda::device_pair> pairs(n * top_k);
      const on_gpu<cuda::staging_list> staging(1);
      const on_gpu<cuda::mailslot> bell(std::vector<cuda::mailslot>(1));
      const activations_on_gpu posted(n, d_model + 128);  // with room behind, as the real one has
      cuda::dispatch what{};
      what.rank = {device_logits.data(), n, n_experts, top_k, picked.data(), weight.data()};
      what.experts = experts.data();
      what.pairs = pairs.data();
      what.bell = bell.data();
      what.staging = staging.data();
      what.cpu_of = cpu_of.data();
      what.window_number = number.data();
      what.layer = 2;
      what.n_layers = 5;
      what.normed = normed.view();
      for (unsigned p = 0; p < 2; ++p) what.posted[p] = posted.view().part[p];
      cuda::dispatch_experts(what, stream);
      const auto begins_with = [](auto found, const auto& expected) {
        found.resize(expected.size());
        return found == expected;
      };
      CHECK(begins_with(posted.q(0).read(), x.q));
      CHECK(begins_with(posted.q(1).read(), x.residual_q));
      CHECK(begins_with(posted.d(0).read(), x.d));
      CHECK(begins_with(posted.d(1).read(), x.residual_d));
      CHECK(begins_with(posted.sum(0).read(), x.sum));
      CHECK(begins_with(posted.sum(1).read(), x.residual_sum));
      const cuda::mailslot rung = bell.read()[0];
      CHECK(rung.rung == cuda::doorbell_number(7, 2, 5));
      CHECK(rung.layer == 2);
      CHECK(rung.n_misses == n * top_k);
      for (std::uint32_t miss = 0; miss < rung.n_misses; ++miss) {
        CHECK(rung.misses[miss].row < n);
        CHECK(rung.misses[miss].expert < n_experts);
      }
      for (const std::uint32_t expert : picked.read()) CHECK(expert < n_experts);
      CHECK(staging.read()[0].n_cpu == n * top_k);
    }
  }
}

TEST_CASE("an upload brings every word of pinned memory and none beyond, whatever it begins at", "[gpu][kernels]") {
  constexpr std::size_t n = 100'003;
  std::uint32_t* from = nullptr;
  require(cudaMallocHost(reinterpret_cast<void**>(&from), n * sizeof *from));
  std::iota(from, from + n, 1u);
  for (const std::size_t begin : {0u, 1u, 4u}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{4001}, n - 4}) {
      INFO(count << " words from " << begin);
      const on_gpu<std::uint32_t> to(n);
      std::vector<std::uint32_t> expected = to.read();
      std::copy_n(from + begin, std::min(count, n - begin), expected.begin() + static_cast<std::ptrdiff_t>(begin));
      cuda::upload(to.data() + begin, from + begin, std::min(count, n - begin) * sizeof *from, stream);
      CHECK(to.read() == expected);
    }
  }
  require(cudaFreeHost(from));
}
