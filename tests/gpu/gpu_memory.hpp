// tests/gpu/gpu_memory.hpp: vectors that lie on the GPU, for tests of kernels.
#pragma once
#include "kernels/activations.hpp"
#include "kernels/cuda/activations.hpp"
#include "tests/kernels/fixtures.hpp"
#include <cuda_runtime.h>

namespace ebb::kernels::test {

inline void require(cudaError_t outcome) {
  INFO(cudaGetErrorString(outcome));
  REQUIRE(outcome == cudaSuccess);
}

template <class T>
class on_gpu {
 public:
  explicit on_gpu(std::size_t n) : size_(n) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), (n * sizeof(T) / 256 + 1) * 256));  // kernels may read on to the next multiple of 16 bytes
    require(cudaMemset(data_, 0xa5, n * sizeof(T)));  // what a kernel forgets to write shows
  }
  template <class Values>
  explicit on_gpu(const Values& values) requires requires { values.size(); } : on_gpu(values.size()) {
    require(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  on_gpu(const on_gpu&) = delete;
  on_gpu& operator=(const on_gpu&) = delete;
  ~on_gpu() { cudaFree(data_); }

  T* data() const noexcept { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    require(cudaDeviceSynchronize());
    require(cudaGetLastError());
    require(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

// Rows of activations, with what the CPU's definition quantised them to, or empty.
class activations_on_gpu {
 public:
  activations_on_gpu(std::uint32_t n_rows, std::uint32_t n_cols)
      : n_cols_(n_cols), x_(n_rows * n_cols), q_{on_gpu<std::int8_t>(n_rows * n_cols), on_gpu<std::int8_t>(n_rows * n_cols)},
        d_{on_gpu<float>(n_rows * n_cols / 32), on_gpu<float>(n_rows * n_cols / 32)},
        sum_{on_gpu<std::int32_t>(n_rows * n_cols / 32), on_gpu<std::int32_t>(n_rows * n_cols / 32)} {}
  explicit activations_on_gpu(const owned_activations& from)
      : n_cols_(from.n_cols), x_(from.x), q_{on_gpu<std::int8_t>(from.q), on_gpu<std::int8_t>(from.residual_q)},
        d_{on_gpu<float>(from.d), on_gpu<float>(from.residual_d)}, sum_{on_gpu<std::int32_t>(from.sum), on_gpu<std::int32_t>(from.residual_sum)} {}

  cuda::activation_buffer view(bool with_residuals = true) const {
    cuda::activation_buffer buffer{x_.data(), {{q_[0].data(), d_[0].data(), sum_[0].data()}, {}}, n_cols_};
    if (with_residuals) buffer.part[1] = {q_[1].data(), d_[1].data(), sum_[1].data()};
    return buffer;
  }
  const on_gpu<float>& x() const { return x_; }
  const on_gpu<std::int8_t>& q(unsigned part) const { return q_[part]; }
  const on_gpu<float>& d(unsigned part) const { return d_[part]; }
  const on_gpu<std::int32_t>& sum(unsigned part) const { return sum_[part]; }

 private:
  std::uint32_t n_cols_;
  on_gpu<float> x_;
  on_gpu<std::int8_t> q_[2];
  on_gpu<float> d_[2];
  on_gpu<std::int32_t> sum_[2];
};

// Whether the GPU quantised rows to what the CPU's definition says, in both parts.
inline void check_quantised(const activations_on_gpu& found, const std::vector<float>& x) {
  const auto& scalar = cpu::ops_for(cpu::isa::scalar);
  CHECK(same_bits(found.x().read(), x));
  std::vector<float> left = x;
  for (unsigned part = 0; part < 2; ++part) {
    std::vector<std::int8_t> q(x.size());
    std::vector<float> d(x.size() / 32);
    std::vector<std::int32_t> sum(x.size() / 32);
    scalar.quantize(left.data(), left.size(), q.data(), d.data(), sum.data());
    INFO("part " << part);
    CHECK(found.q(part).read() == q);
    CHECK(same_bits(found.d(part).read(), d));
    CHECK(found.sum(part).read() == sum);
    scalar.residual(left.data(), q.data(), d.data(), left.size(), left.data());
  }
}

}  // namespace ebb::kernels::test
