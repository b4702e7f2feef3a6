#include "model/kv_cache.hpp"
#include "config/assert.hpp"
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ebb::model {

result<kv_cache> kv_cache::make(const kv_shape& dims) {
  EBB_ASSERT(dims.n_layers > 0);
  EBB_ASSERT(dims.n_sessions > 0);
  EBB_ASSERT(dims.context > 0);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  kv_cache cache;
  cache.dims_ = dims;
  const std::size_t session_bytes = std::size_t{dims.n_kv_heads} * dims.context * dims.head_dim * sizeof(std::uint16_t);
  cache.session_stride_bytes_ = (session_bytes + page - 1) / page * page;
  const std::size_t size_bytes = 2 * cache.session_stride_bytes_ * dims.n_sessions * dims.n_layers;
  void* base = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return fail(errc::out_of_memory, "no address space for the keys and values of " + std::to_string(dims.n_sessions) + " sessions of " +
                                         std::to_string(dims.context) + " positions (" + std::to_string(size_bytes >> 20) + " MiB): " +
                                         std::strerror(errno) + "; lower `context` or `parallel`");
  }
  cache.base_ = static_cast<std::byte*>(base);
  cache.size_bytes_ = size_bytes;
  return cache;
}

kv_cache::kv_cache(kv_cache&& other) noexcept { *this = std::move(other); }

kv_cache& kv_cache::operator=(kv_cache&& other) noexcept {
  std::swap(dims_, other.dims_);
  std::swap(base_, other.base_);
  std::swap(session_stride_bytes_, other.session_stride_bytes_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

kv_cache::~kv_cache() {
  if (base_ != nullptr) munmap(base_, size_bytes_);
}

std::uint16_t* kv_cache::at(std::uint32_t which, std::uint32_t layer, std::uint32_t session, std::uint32_t head) noexcept {
  EBB_DASSERT(layer < dims_.n_layers);
  EBB_DASSERT(session < dims_.n_sessions);
  EBB_DASSERT(head < dims_.n_kv_heads);
  const std::size_t block = (std::size_t{layer} * 2 + which) * dims_.n_sessions + session;
  auto* values = reinterpret_cast<std::uint16_t*>(base_ + block * session_stride_bytes_);
  return values + std::size_t{head} * dims_.context * dims_.head_dim;
}

void kv_cache::clear(std::uint32_t session) noexcept {
  for (std::uint32_t layer = 0; layer < dims_.n_layers; ++layer) {
    madvise(at(0, layer, session, 0), session_stride_bytes_, MADV_DONTNEED);
    madvise(at(1, layer, session, 0), session_stride_bytes_, MADV_DONTNEED);
  }
}

std::size_t kv_cache::bytes_per_position() const noexcept {
  return std::size_t{dims_.n_layers} * 2 * dims_.n_kv_heads * dims_.head_dim * sizeof(std::uint16_t);
}

}  // namespace ebb::model
