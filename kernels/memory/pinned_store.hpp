// kernels/memory/pinned_store.hpp: bytes of files, read into memory of huge pages that GPUs read at full speed.
//
// Measured on 16 cores: 65 ms a GiB to read from the page cache by 16 threads, 30 to pin. Where pinning is refused the bytes are as right,
// only slower to copy: pinned() is then false, and warning() says what it costs and the way out.
// Immutable once made, so any thread may read it.
#pragma once
#include "config/result.hpp"
#include "kernels/gpu.hpp"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace ebb::kernels {

// Bytes that lie one behind the other.
struct store_piece {
  std::span<const std::byte> mapped;  // where they are now; not read if there is a file
  int file = -1;                      // an open descriptor, or -1
  std::uint64_t offset_bytes = 0;     // in it
};

// Pieces whose parts are to lie together: part 0 of every piece, one behind the other, then part 1 of every piece, and so on. So the
// tensors of a layer, each of all its experts, become one expert after the other.
struct store_group {
  std::vector<store_piece> pieces;  // each of n_parts parts of the same size
  std::uint32_t n_parts = 1;
};

struct store_options {
  std::string name;        // for errors: "card 0"
  unsigned n_threads = 1;  // that read, with the caller; at most limits::store_threads_max are used
  std::function<void(double)> progress;  // called by the caller's thread with the share done, in [0, 1] and never less than before; may be empty
  std::stop_token stop;
  // What the system kept of the pieces in its cache is given up once they are pinned, so that they are not in memory twice. Without this it
  // goes when something else needs the memory, and until then a new start reads it at the speed of RAM.
  bool give_up_cache = true;
};

class pinned_store {
 public:
  // Reads the groups and pins them by `gpu`, which the store keeps alive. Files are no longer needed then.
  // Errors: out_of_memory (the system has less; nothing is taken), file_unreadable, cancelled (`stop`), card_lost (the GPU failed while it
  // pinned: only memory that the system does not lock is a reason to go on without).
  static result<std::unique_ptr<pinned_store>> read(std::span<const store_group> groups, std::shared_ptr<gpu> gpu, const store_options& options);
  ~pinned_store();
  pinned_store(const pinned_store&) = delete;
  pinned_store& operator=(const pinned_store&) = delete;

  // Part 0 of a piece; that of piece 0 begins at a multiple of 4096 bytes. From a part to the next of its piece it is stride_bytes, a
  // multiple of 64.
  const std::byte* piece(std::size_t group, std::size_t index) const noexcept { return base_ + placed_[group].offsets[index]; }
  std::uint64_t stride_bytes(std::size_t group) const noexcept { return placed_[group].stride_bytes; }
  std::uint64_t held_bytes() const noexcept { return size_bytes_; }

  bool pinned() const noexcept { return pinned_; }
  const std::string& warning() const noexcept { return warning_; }  // empty where pinned

 private:
  pinned_store() = default;
  struct placed_group {
    std::vector<std::uint64_t> offsets;  // [pieces] of part 0
    std::uint64_t stride_bytes;
  };
  std::uint64_t place(std::span<const store_group> groups);
  result<void> take(std::uint64_t size_bytes, const std::string& name);
  result<void> pin(const std::string& name);

  std::shared_ptr<gpu> gpu_;
  std::byte* reserved_ = nullptr;      // of the mapping, which is larger by what a border of huge pages needs
  std::uint64_t reserved_bytes_ = 0;
  std::byte* base_ = nullptr;          // at a border of huge pages
  std::uint64_t size_bytes_ = 0;       // whole huge pages
  std::vector<placed_group> placed_;   // [groups]
  bool pinned_ = false;
  std::string warning_;
};

}  // namespace ebb::kernels
