// tests/actors/support/failing_arena.hpp: an arena in plain memory that refuses the operations a test chooses, by itself or on a
// device that it shares with others.
//
// What is not mapped holds rubbish, and copies do nothing until they are awaited, so that a read or a copy that comes too early or
// too late shows.
#pragma once
#include "kernels/memory/arena.hpp"
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace ebb::actors::test {

enum class operation : std::uint8_t { map, unmap, remap, copy_in, copy_within, finish_copies, read_free };

// A device of a simulation. It outlives the arenas on it, each of which may have a thread of its own.
struct shared_device {
  std::uint64_t size_bytes = 0;
  std::atomic<std::uint64_t> others_bytes = 0;         // taken by other programs
  std::function<bool(operation)> refuses;              // asked at each operation; empty: never
  std::atomic<std::uint64_t> caches_bytes = 0;         // held by the arenas on it
  std::atomic<int> caches = 0;                         // those arenas

  std::uint64_t free_bytes() const {
    const std::uint64_t used = others_bytes + caches_bytes;
    return size_bytes - std::min(size_bytes, used);
  }
};

class failing_arena final : public kernels::arena {
 public:
  explicit failing_arena(kernels::segment_layout layout, shared_device* device = nullptr)
      : arena(layout), device_(device), bytes_(layout.full_bytes, rubbish) {
    if (device_) ++device_->caches;
  }
  ~failing_arena() override {
    if (!device_) return;
    --device_->caches;
    device_->caches_bytes -= held_bytes();
  }

  // From now on the operation number `at` of this kind, counted from 0, fails; and those after it too if `ever_after`.
  void fail_at(operation kind, std::size_t at, bool ever_after = false) {
    of(kind).fails_at = of(kind).count + at;
    of(kind).ever_after = ever_after;
  }
  void fail_no_more() {
    for (history& each : histories_) each.fails_at.reset();
  }

  // From now on copies take their time: as any copy here, they are seen when they have been awaited.
  void copy_by_itself() { copies_by_itself_ = true; }
  bool copies_by_itself() const noexcept override { return copies_by_itself_; }

  std::size_t count(operation kind) const { return histories_[static_cast<std::size_t>(kind)].count; }
  std::size_t releases() const noexcept { return releases_; }

  std::byte* base() const noexcept override { return bytes_.data(); }
  result<std::uint64_t> free_bytes() const override {
    if (!device_) return layout().full_bytes - held_bytes();
    if (device_->refuses && device_->refuses(operation::read_free)) return fail(errc::card_lost, "the device does not say what is free");
    return device_->free_bytes();
  }

 private:
  static constexpr std::byte rubbish{0xA5};
  struct history {
    std::size_t count = 0;
    std::optional<std::size_t> fails_at;
    bool ever_after = false;
  };

  history& of(operation kind) { return histories_[static_cast<std::size_t>(kind)]; }

  result<void> attempt(operation kind, const char* name) {
    if (device_ && device_->refuses && device_->refuses(kind)) return fail(errc::card_lost, std::string("the device refused to ") + name);
    history& so_far = of(kind);
    const std::size_t number = so_far.count++;
    if (!so_far.fails_at || number < *so_far.fails_at) return {};
    if (number > *so_far.fails_at && !so_far.ever_after) return {};
    return fail(errc::card_lost, std::string("the device refused to ") + name);
  }

  std::byte* begin_of(kernels::segment_index segment) const { return bytes_.data() + layout().begin_of(segment); }
  void spoil(kernels::segment_index segment) { std::fill_n(begin_of(segment), layout().size_of(segment), rubbish); }

  result<void> do_map(kernels::segment_index segment) override {
    if (auto allowed = attempt(operation::map, "map"); !allowed) return allowed;
    if (device_ && device_->free_bytes() < layout().size_of(segment)) return fail(errc::out_of_memory, "the device has too little free to map");
    if (device_) device_->caches_bytes += layout().size_of(segment);
    spoil(segment);
    return {};
  }
  result<void> do_unmap(kernels::segment_index segment) override {
    if (auto allowed = attempt(operation::unmap, "unmap"); !allowed) return allowed;
    kept_[segment].assign(begin_of(segment), begin_of(segment) + layout().size_of(segment));
    spoil(segment);
    return {};
  }
  result<void> do_remap(kernels::segment_index segment) override {
    if (auto allowed = attempt(operation::remap, "remap"); !allowed) return allowed;
    std::copy(kept_.at(segment).begin(), kept_.at(segment).end(), begin_of(segment));
    kept_.erase(segment);
    return {};
  }
  void do_release(kernels::segment_index segment) noexcept override {
    ++releases_;
    if (device_) device_->caches_bytes -= layout().size_of(segment);
    kept_.erase(segment);
  }
  result<void> do_begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (auto allowed = attempt(operation::copy_in, "copy in"); !allowed) return allowed;
    under_way_.push_back({bytes.data(), bytes_.data() + offset, bytes.size()});
    return {};
  }
  result<void> do_begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) override {
    if (auto allowed = attempt(operation::copy_within, "copy within"); !allowed) return allowed;
    under_way_.push_back({bytes_.data() + from, bytes_.data() + to, size});
    return {};
  }
  result<void> do_finish_copies() override {
    const std::vector<copy> begun = std::exchange(under_way_, {});
    if (auto allowed = attempt(operation::finish_copies, "finish its copies"); !allowed) {
      for (const copy& each : begun) std::fill_n(each.to, each.size, rubbish);
      return allowed;
    }
    for (const copy& each : begun) std::memcpy(each.to, each.from, each.size);
    return {};
  }

  bool copies_by_itself_ = false;
  struct copy {
    const std::byte* from;
    std::byte* to;
    std::size_t size;
  };

  shared_device* device_;
  mutable std::vector<std::byte> bytes_;  // base() is const and its bytes are not, as in every arena
  std::map<kernels::segment_index, std::vector<std::byte>> kept_;
  std::vector<copy> under_way_;
  std::array<history, 7> histories_;
  std::size_t releases_ = 0;
};

}  // namespace ebb::actors::test
