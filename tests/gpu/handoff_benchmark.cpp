// What the hand-off of rows from one GPU to another costs: through pinned memory of the host, as the engine does it, and from GPU to GPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

namespace {

constexpr std::size_t d_model = 2048;
constexpr int repeats = 200;

void require(cudaError_t outcome) {
  INFO(cudaGetErrorString(outcome));
  REQUIRE(outcome == cudaSuccess);
}

// A stream and a buffer on one GPU.
struct end_of_link {
  int gpu;
  cudaStream_t stream = nullptr;
  std::byte* data = nullptr;

  end_of_link(int number, std::size_t size_bytes) : gpu(number) {
    require(cudaSetDevice(gpu));
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    require(cudaMalloc(reinterpret_cast<void**>(&data), size_bytes));
  }
  ~end_of_link() {
    cudaSetDevice(gpu);
    cudaFree(data);
    cudaStreamDestroy(stream);
  }
  end_of_link(const end_of_link&) = delete;
  end_of_link& operator=(const end_of_link&) = delete;
};

bool allow_peer_access(int gpu, int other) {
  int can = 0;
  require(cudaDeviceCanAccessPeer(&can, gpu, other));
  if (can == 0) return false;
  require(cudaSetDevice(gpu));
  const auto outcome = cudaDeviceEnablePeerAccess(other, 0);
  if (outcome == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
  return outcome == cudaSuccess || outcome == cudaErrorPeerAccessAlreadyEnabled;
}

template <class Act>
void measure(const char* what, std::size_t n_rows, Act act) {
  std::vector<double> us;
  for (int repeat = 0; repeat < repeats + 20; ++repeat) {  // the first ones warm up
    const auto began = std::chrono::steady_clock::now();
    act();
    if (repeat >= 20) us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count());
  }
  std::sort(us.begin(), us.end());
  std::printf("hand-off of %3zu rows %-38s %8.1f us (%.1f to %.1f), %.1f GB/s\n", n_rows, what, us[us.size() / 2], us.front(), us.back(),
              static_cast<double>(n_rows * d_model * sizeof(float)) / us[us.size() / 2] / 1000);
  std::fflush(stdout);
}

std::vector<std::byte> read(const end_of_link& from, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  require(cudaSetDevice(from.gpu));
  require(cudaMemcpy(bytes.data(), from.data, size_bytes, cudaMemcpyDeviceToHost));
  return bytes;
}

void compare_ways(int gpu_from, int gpu_to) {
  for (const std::size_t n_rows : {1, 8, 512}) {
    const std::size_t size_bytes = n_rows * d_model * sizeof(float);
    const end_of_link from(gpu_from, size_bytes), to(gpu_to, size_bytes);
    std::vector<std::byte> sent(size_bytes);
    for (std::size_t i = 0; i < size_bytes; ++i) sent[i] = static_cast<std::byte>(i * 31 + n_rows);
    require(cudaSetDevice(gpu_from));
    require(cudaMemcpy(from.data, sent.data(), size_bytes, cudaMemcpyHostToDevice));
    void* pinned = nullptr;
    require(cudaHostAlloc(&pinned, size_bytes, cudaHostAllocPortable));

    const auto check_arrived = [&](auto act) {
      require(cudaSetDevice(gpu_to));
      require(cudaMemset(to.data, 0, size_bytes));
      require(cudaDeviceSynchronize());
      require(cudaSetDevice(gpu_from));
      act();
      CHECK(read(to, size_bytes) == sent);
      require(cudaSetDevice(gpu_from));
    };
    const auto by_host = [&] {
      require(cudaMemcpyAsync(pinned, from.data, size_bytes, cudaMemcpyDeviceToHost, from.stream));
      require(cudaStreamSynchronize(from.stream));
      require(cudaMemcpyAsync(to.data, pinned, size_bytes, cudaMemcpyHostToDevice, to.stream));
      require(cudaStreamSynchronize(to.stream));
    };
    const auto by_peer = [&] {
      require(cudaMemcpyPeerAsync(to.data, gpu_to, from.data, gpu_from, size_bytes, from.stream));
      require(cudaStreamSynchronize(from.stream));
    };
    check_arrived(by_host);
    check_arrived(by_peer);
    measure("through pinned memory", n_rows, by_host);
    measure("by cudaMemcpyPeerAsync", n_rows, by_peer);
    cudaFreeHost(pinned);
  }
}

}  // namespace

TEST_CASE("rows from one GPU to the other, through pinned memory and by peer copies", "[gpu][benchmark][handoff][.two_gpus]") {
  int count = 0;
  require(cudaGetDeviceCount(&count));
  if (count < 2) FAIL("this measures between two GPUs, and the driver knows " << count);
  std::printf("without peer access:\n");
  compare_ways(0, 1);
  const bool there = allow_peer_access(0, 1), back = allow_peer_access(1, 0);
  std::printf("with peer access%s:\n", there && back ? "" : ", which these GPUs do not have");
  if (there && back) compare_ways(0, 1);
  require(cudaSetDevice(0));
}
