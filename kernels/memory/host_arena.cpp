#include "kernels/memory/host_arena.hpp"
#include "config/assert.hpp"
#include "kernels/memory/system_memory.hpp"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

namespace ebb::kernels {
namespace {

constexpr std::uint64_t huge_page_bytes = 2u << 20;  // of x86-64 and of AArch64 with 4 KiB pages

// More than any machine has, and segments of one page each can still be numbered.
constexpr std::uint64_t cache_bytes_max = std::uint64_t{8} << 40;
static_assert(cache_bytes_max / 4096 <= std::numeric_limits<segment_index>::max());

std::uint64_t page_bytes() noexcept { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

std::string mib(std::uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1u << 20));
  return text;
}

// Takes the pages now. The advice is known since Linux 5.14; before that a write to each page does the same, without its error.
bool populate(std::byte* begin, std::uint64_t size) noexcept {
  if (madvise(begin, size, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  volatile std::byte* const bytes = begin;
  for (std::uint64_t offset = 0; offset < size; offset += page_bytes()) bytes[offset] = std::byte{0};
  return true;
}

result<void> check(const host_arena_settings& settings) {
  const auto& [segment_bytes, full_bytes] = settings.layout;
  const std::string card = "card " + settings.card;
  if (full_bytes == 0) return fail(errc::bad_value, card + ": a cache of 0 bytes; it needs room for at least one expert");
  if (full_bytes > cache_bytes_max)
    return fail(errc::bad_value, card + ": a cache of " + mib(full_bytes) + "; at most " + mib(cache_bytes_max) + " are possible");
  if (segment_bytes == 0 || segment_bytes % page_bytes() != 0)
    return fail(errc::bad_value, card + ": segments of " + std::to_string(segment_bytes) +
                                     " bytes are no whole number of pages; choose a multiple of " + std::to_string(page_bytes()));
  return {};
}

}  // namespace

result<std::unique_ptr<host_arena>> host_arena::create(host_arena_settings settings) {
  if (auto usable = check(settings); !usable) return fail(std::move(usable.error()));
  // A page more than needed, so that there is a border of huge pages to begin at.
  const std::uint64_t size = round_up(settings.layout.full_bytes, page_bytes()) + huge_page_bytes;
  void* const reserved = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return fail(errc::out_of_memory, "card " + settings.card + ": cannot reserve addresses for a cache of " +
                                         mib(settings.layout.full_bytes) + " (" + std::strerror(errno) +
                                         "); raise the limit of address space (ulimit -v), or use a smaller cache");
  return std::unique_ptr<host_arena>(new host_arena(std::move(settings), static_cast<std::byte*>(reserved), size));
}

host_arena::host_arena(host_arena_settings settings, std::byte* reserved, std::uint64_t reserved_bytes)
    : arena(settings.layout),
      card_(std::move(settings.card)),
      card_bytes_(settings.card_bytes),
      reserved_(reserved),
      reserved_bytes_(reserved_bytes),
      base_(reserved + (huge_page_bytes - reinterpret_cast<std::uintptr_t>(reserved) % huge_page_bytes) % huge_page_bytes) {
  // Advice only: on a kernel without huge pages either call fails, and the arena is right without them.
  const bool whole_huge_pages = layout().segment_bytes % huge_page_bytes == 0;
  madvise(reserved_, reserved_bytes_, whole_huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

host_arena::~host_arena() { munmap(reserved_, reserved_bytes_); }

result<std::uint64_t> host_arena::free_bytes() const {
  auto system = available_memory_bytes();
  if (!system || card_bytes_ == 0) return system;
  return std::min(*system, card_bytes_ - std::min(card_bytes_, held_bytes()));
}

result<void> host_arena::check_room(segment_index segment) const {
  const auto room = free_bytes();
  if (!room) return fail(room.error());
  if (*room >= layout().size_of(segment)) return {};
  return fail(errc::out_of_memory, describe(segment) + " cannot be mapped: " + mib(*room) + " are free, and " + mib(held_bytes()) +
                                       " are held by this card; lower the cache, or raise host_card_mib if the machine has more memory");
}

result<void> host_arena::protect(segment_index segment, int access) {
  if (mprotect(address_of(segment), layout().size_of(segment), access) == 0) return {};
  return fail(errc::out_of_memory, describe(segment) + " cannot be " + (access == PROT_NONE ? "unmapped" : "mapped") + ": " +
                                       std::strerror(errno) + "; larger segments need fewer mappings (vram_segment_mib)");
}

result<void> host_arena::do_map(segment_index segment) {
  if (auto room = check_room(segment); !room) return room;
  if (auto accessible = protect(segment, PROT_READ | PROT_WRITE); !accessible) return accessible;
  if (populate(address_of(segment), layout().size_of(segment))) return {};
  auto failure = fail(errc::out_of_memory, describe(segment) + " cannot be filled with pages: " + std::strerror(errno) +
                                               "; end other programs, or lower host_card_mib");
  do_release(segment);
  mprotect(address_of(segment), layout().size_of(segment), PROT_NONE);
  return failure;
}

result<void> host_arena::do_unmap(segment_index segment) { return protect(segment, PROT_NONE); }

result<void> host_arena::do_remap(segment_index segment) { return protect(segment, PROT_READ | PROT_WRITE); }

void host_arena::do_release(segment_index segment) noexcept {
  const int failed = madvise(address_of(segment), layout().size_of(segment), MADV_DONTNEED);
  EBB_ASSERT(!failed);  // it only fails on a wrong range, or on pages that we had locked
}

result<void> host_arena::do_begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(base_ + offset, bytes.data(), bytes.size());
  return {};
}

result<void> host_arena::do_begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  std::memcpy(base_ + to, base_ + from, size);
  return {};
}

std::string host_arena::describe(segment_index segment) const {
  return "card " + card_ + ": segment " + std::to_string(segment) + " of " + mib(layout().size_of(segment));
}

}  // namespace ebb::kernels
