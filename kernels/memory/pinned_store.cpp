#include "kernels/memory/pinned_store.hpp"
#include "config/assert.hpp"
#include "kernels/memory/parallel_read.hpp"
#include "kernels/memory/system_memory.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

namespace ebb::kernels {
namespace {

constexpr std::uint64_t huge_page_bytes = 2u << 20;  // of x86-64 and of AArch64 with 4 KiB pages
constexpr std::uint64_t group_alignment = 4096;
constexpr std::uint64_t part_alignment = 64;  // that of a slot

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

std::string mib(std::uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

// Advice: what is mapped elsewhere stays.
void give_up_cached(std::span<const store_group> groups) noexcept {
  for (const store_group& group : groups) {
    for (const store_piece& piece : group.pieces) {
      if (piece.file < 0) continue;
      ::posix_fadvise(piece.file, static_cast<off_t>(piece.offset_bytes), static_cast<off_t>(piece.mapped.size()), POSIX_FADV_DONTNEED);
    }
  }
}

store_piece part_of(const store_piece& piece, std::uint64_t part_bytes, std::uint32_t part) {
  return {piece.mapped.subspan(part * part_bytes, part_bytes), piece.file, piece.offset_bytes + part * part_bytes};
}

}  // namespace

result<std::unique_ptr<pinned_store>> pinned_store::read(std::span<const store_group> groups, std::shared_ptr<gpu> gpu,
                                                         const store_options& options) {
  std::unique_ptr<pinned_store> store(new pinned_store);
  store->gpu_ = std::move(gpu);
  if (auto taken = store->take(store->place(groups), options.name); !taken) return fail(taken.error());
  std::vector<store_piece> parts;
  std::vector<std::uint64_t> offsets;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& [pieces, n_parts] = groups[g];
    for (std::uint32_t part = 0; part < n_parts; ++part) {
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        parts.push_back(part_of(pieces[i], pieces[i].mapped.size() / n_parts, part));
        offsets.push_back(store->placed_[g].offsets[i] + part * store->placed_[g].stride_bytes);
      }
    }
  }
  if (auto done = read_pieces(parts, store->base_, offsets, options); !done) return fail(done.error());
  if (auto pinned = store->pin(options.name); !pinned) return fail(pinned.error());
  if (store->pinned_ && options.give_up_cache) give_up_cached(groups);
  return store;
}

// The bytes that all of them need.
std::uint64_t pinned_store::place(std::span<const store_group> groups) {
  std::uint64_t size = 0;
  for (const auto& [pieces, n_parts] : groups) {
    EBB_ASSERT(n_parts > 0);
    placed_group placed{};
    std::uint64_t of_part = 0;
    for (const store_piece& piece : pieces) {
      EBB_ASSERT(piece.mapped.size() % n_parts == 0);
      placed.offsets.push_back(size + of_part);
      of_part += piece.mapped.size() / n_parts;
    }
    placed.stride_bytes = round_up(of_part, part_alignment);
    placed_.push_back(std::move(placed));
    size += round_up(n_parts * placed_.back().stride_bytes, group_alignment);
  }
  return size;
}

// What the system says is available counts the file's own pages in its cache, which it drops as the copy grows.
result<void> pinned_store::take(std::uint64_t size_bytes, const std::string& name) {
  size_bytes_ = round_up(std::max<std::uint64_t>(size_bytes, 1), huge_page_bytes);
  const std::string wanted = name + ": the experts need " + mib(size_bytes_) + " of RAM";
  const auto available = available_memory_bytes();
  if (available && *available < size_bytes_) {
    return fail(errc::out_of_memory, wanted + ", and " + mib(*available) +
                                         " are available; end other programs, raise the memory limit of the " +
                                         "container, or use a smaller model or format");
  }
  reserved_bytes_ = size_bytes_ + huge_page_bytes;
  void* const taken = ::mmap(nullptr, reserved_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) {
    return fail(errc::out_of_memory, wanted + ", which the system does not give (" + std::strerror(errno) +
                                         "); raise the limit of address " + "space (ulimit -v), or use a smaller model or format");
  }
  reserved_ = static_cast<std::byte*>(taken);
  base_ = reserved_ + (huge_page_bytes - reinterpret_cast<std::uintptr_t>(reserved_) % huge_page_bytes) % huge_page_bytes;
  ::madvise(base_, size_bytes_, MADV_HUGEPAGE);  // advice only: small pages are as right
  return {};
}

result<void> pinned_store::pin(const std::string& name) {
  const auto done = gpu_->pin(base_, size_bytes_);
  pinned_ = done.has_value();
  if (pinned_) return {};
  if (done.error().code != errc::out_of_memory) return fail(done.error().code, name + ": pinning the experts: " + done.error().text);
  warning_ = name + ": " + mib(size_bytes_) + " of experts are not pinned (" + done.error().text +
             "), so copies to the GPU run at about 9 GB/s " +
             "instead of 55: misses and resizes take longer, answers are the same; allow more locked memory (ulimit -l unlimited), or " +
             "free memory, and start again";
  return {};
}

pinned_store::~pinned_store() {
  if (pinned_) gpu_->unpin(base_);
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
}

}  // namespace ebb::kernels
