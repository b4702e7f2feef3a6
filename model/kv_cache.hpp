// model/kv_cache.hpp: the keys and values of the sessions of one stage.
//
//   k, v: [layers of the stage, sessions, n_kv_heads, context, head_dim] half, so that a head's positions are contiguous
//
// Address space is taken once at start; the system gives pages as positions are first written, and clear() gives a session's back.
// Owned by one card and touched only by its thread.
#pragma once
#include "config/result.hpp"
#include <cstddef>
#include <cstdint>

namespace ebb::model {

struct kv_shape {
  std::uint32_t n_layers, n_sessions, n_kv_heads, context, head_dim;
};

class kv_cache {
 public:
  // Errors: out_of_memory (the address space is refused; names the size and the settings `context` and `parallel`).
  static result<kv_cache> make(const kv_shape& dims);
  kv_cache(kv_cache&& other) noexcept;
  kv_cache& operator=(kv_cache&& other) noexcept;
  ~kv_cache();

  // The first position of one head: [context, head_dim]. Pre: indices in range (asserts).
  std::uint16_t* k(std::uint32_t layer, std::uint32_t session, std::uint32_t head) noexcept { return at(0, layer, session, head); }
  std::uint16_t* v(std::uint32_t layer, std::uint32_t session, std::uint32_t head) noexcept { return at(1, layer, session, head); }

  // Forgets a session's positions and returns their pages.
  void clear(std::uint32_t session) noexcept;

  const kv_shape& dims() const noexcept { return dims_; }
  // Bytes that one position of one session takes on this stage, keys and values together.
  std::size_t bytes_per_position() const noexcept;

 private:
  kv_cache() = default;
  std::uint16_t* at(std::uint32_t which, std::uint32_t layer, std::uint32_t session, std::uint32_t head) noexcept;

  kv_shape dims_{};
  std::byte* base_ = nullptr;
  std::size_t session_stride_bytes_ = 0;  // of one session's keys (or values) of one layer, a multiple of the page size
  std::size_t size_bytes_ = 0;
};

}  // namespace ebb::model
