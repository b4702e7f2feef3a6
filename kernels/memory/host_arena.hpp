// kernels/memory/host_arena.hpp: the arena of a host card, in anonymous memory of this process.
//
// map touches every page, so that the free figure is honest and a lack of memory is an error now, not a killed process later.
// Huge pages are asked for only where a segment is a whole number of them: of a huge page that lies across two segments the system
// would get nothing back until both are released.
#pragma once
#include "kernels/memory/arena.hpp"
#include <memory>
#include <string>

namespace ebb::kernels {

struct host_arena_settings {
  std::string card = "host";     // how errors name it
  segment_layout layout;         // segment_bytes: a multiple of the system's page size
  std::uint64_t card_bytes = 0;  // what the card pretends to have; 0 = as much as the system has
};

class host_arena final : public arena {
 public:
  // Reserves addresses, takes no memory yet. Errors: bad_value (a size of 0, or segments that are no whole pages),
  // out_of_memory (no such range of addresses).
  static result<std::unique_ptr<host_arena>> create(host_arena_settings settings);
  ~host_arena() override;

  std::byte* base() const noexcept override { return base_; }

  // What the system has available, but no more than card_bytes leaves beside the segments held here.
  // Errors: file_unreadable (no /proc/meminfo).
  result<std::uint64_t> free_bytes() const override;

 private:
  host_arena(host_arena_settings settings, std::byte* reserved, std::uint64_t reserved_bytes);

  result<void> do_map(segment_index segment) override;
  result<void> do_unmap(segment_index segment) override;
  result<void> do_remap(segment_index segment) override;
  void do_release(segment_index segment) noexcept override;
  result<void> do_begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) override;
  result<void> do_begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) override;

  std::byte* address_of(segment_index segment) const noexcept { return base_ + layout().begin_of(segment); }
  result<void> check_room(segment_index segment) const;
  result<void> protect(segment_index segment, int access);
  std::string describe(segment_index segment) const;

  std::string card_;
  std::uint64_t card_bytes_;
  std::byte* reserved_;  // as the system gave it; base_ is its first border of huge pages
  std::uint64_t reserved_bytes_;
  std::byte* base_;
};

}  // namespace ebb::kernels
