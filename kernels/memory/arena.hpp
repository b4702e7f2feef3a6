// kernels/memory/arena.hpp: the memory of a card's cache, one reserved range of addresses that is mapped segment by segment.
//
//   absent --map--> mapped --unmap--> unmapped --release--> absent
//                   mapped <--remap-- unmapped
//
// An unmapped segment cannot be read, but still holds its memory and its contents: a shrink that fails half-way remaps it. Only
// release gives memory back. Addresses never change, so a pointer into a segment is valid again whenever the segment is mapped.
//
// Here the states are kept and checked, once for every kind of card; a kind of card implements the private do_ functions, which
// may rely on the state and leave it as it was if they fail. One thread at a time: the card actor that owns the arena.
#pragma once
#include "config/result.hpp"
#include "kernels/memory/layout.hpp"
#include <cstddef>
#include <span>
#include <vector>

namespace ebb::kernels {

enum class segment_state : std::uint8_t { absent, mapped, unmapped };

class arena {
 public:
  virtual ~arena() = default;
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  // The first byte of the range, in the address space of the card; constant. Only mapped segments may be touched.
  virtual std::byte* base() const noexcept = 0;

  // What the device says is free now, for anybody, in bytes. Errors: those of the device.
  virtual result<std::uint64_t> free_bytes() const = 0;

  // Takes memory for an absent segment and makes it accessible; its contents are undefined. A failure changes nothing.
  // Errors: out_of_memory (the device has less free; nothing is taken), card_lost.
  result<void> map(segment_index segment);

  // Makes a mapped segment inaccessible and keeps its memory. Pre: no reader is left. Errors: card_lost; nothing changed.
  result<void> unmap(segment_index segment);

  // Undoes unmap: same contents, same addresses. Errors: card_lost; nothing changed.
  result<void> remap(segment_index segment);

  // Gives the memory of an unmapped segment back to the system, at once.
  void release(segment_index segment) noexcept;

  // Copies from host memory into the arena, and within it. Copies may still be on their way when these return: they take effect in the
  // order in which they were begun, and what they read must stay, and stay mapped, until finish_copies(). Every segment that is touched
  // must be mapped, and the two ranges of one copy within must not overlap (both assert). Errors: card_lost; this one has not begun.
  result<void> begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes);
  result<void> begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size);

  // Whether a copy that was begun goes on by itself while its thread does something else.
  virtual bool copies_by_itself() const noexcept { return false; }

  // Whether some were begun, and finish_copies() has not been called since.
  bool copies_under_way() const noexcept { return copies_under_way_; }

  // Waits for every copy that was begun. Errors: card_lost; what they were to write is then undefined.
  result<void> finish_copies();

  // One copy, which has ended when the call returns. Errors: card_lost.
  result<void> copy_in(std::uint64_t offset, std::span<const std::byte> bytes);
  result<void> copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size);

  const segment_layout& layout() const noexcept { return layout_; }
  segment_state state(segment_index segment) const noexcept;
  segment_index mapped_count() const noexcept { return mapped_count_; }
  std::uint64_t mapped_bytes() const noexcept { return mapped_bytes_; }
  std::uint64_t held_bytes() const noexcept { return held_bytes_; }  // mapped and unmapped: what release has not given back

  // Whether every byte of [offset, offset + size) lies in a mapped segment.
  bool is_mapped(std::uint64_t offset, std::uint64_t size) const noexcept;

 protected:
  // Pre: both sizes of the layout are > 0 (asserts).
  explicit arena(segment_layout layout);

 private:
  virtual result<void> do_map(segment_index segment) = 0;
  virtual result<void> do_unmap(segment_index segment) = 0;
  virtual result<void> do_remap(segment_index segment) = 0;
  virtual void do_release(segment_index segment) noexcept = 0;
  virtual result<void> do_begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual result<void> do_begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) = 0;
  virtual result<void> do_finish_copies() { return {}; }  // of a device whose copies have ended when they have begun

  void enter(segment_index segment, segment_state next) noexcept;

  segment_layout layout_;
  std::vector<segment_state> states_;  // [layout_.count()]
  segment_index mapped_count_ = 0;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
  bool copies_under_way_ = false;
};

}  // namespace ebb::kernels
