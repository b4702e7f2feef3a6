#include "kernels/memory/cuda_arena.hpp"
#include "config/assert.hpp"
#include "kernels/cuda/bounded_wait.hpp"

namespace ebb::kernels {
namespace {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

CUmemAllocationProp memory_of(const cuda::device& on) {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = on.handle();
  return kind;
}

}  // namespace

result<std::unique_ptr<cuda_arena>> cuda_arena::create(std::shared_ptr<const cuda::device> on, segment_layout layout) {
  const cuda::driver& api = on->api();
  const std::string card = "cuda:" + std::to_string(on->number());
  if (auto current = on->make_current(); !current) return fail(current.error());
  const CUmemAllocationProp kind = memory_of(*on);
  std::size_t piece = 0;
  if (auto read = api.check(api.cuMemGetAllocationGranularity(&piece, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM), card + ": granularity"); !read)
    return fail(read.error());
  if (layout.full_bytes == 0) return fail(errc::bad_value, card + ": a cache of 0 bytes; it needs room for at least one expert");
  if (layout.segment_bytes == 0 || layout.segment_bytes % piece != 0)
    return fail(errc::bad_value, card + ": segments of " + std::to_string(layout.segment_bytes) + " bytes; this GPU gives memory out in pieces of " +
                                     std::to_string(piece) + ", so choose a multiple of that (vram_segment_mib)");
  std::unique_ptr<cuda_arena> made(new cuda_arena(std::move(on), layout, kind, piece));
  if (auto reserved = api.check(api.cuMemAddressReserve(&made->base_, round_up(layout.full_bytes, piece), 0, 0, 0), card + ": no addresses"); !reserved)
    return fail(reserved.error());
  if (auto begun = api.check(api.cuStreamCreate(&made->stream_, CU_STREAM_NON_BLOCKING), card + ": no stream"); !begun) return fail(begun.error());
  return made;
}

cuda_arena::cuda_arena(std::shared_ptr<const cuda::device> on, segment_layout layout, CUmemAllocationProp kind, std::uint64_t piece_bytes)
    : arena(layout), device_(std::move(on)), kind_(kind), piece_bytes_(piece_bytes), handles_(layout.count()) {}

cuda_arena::~cuda_arena() {
  static_cast<void>(device_->make_current());
  if (stream_ != nullptr) static_cast<void>(await_copies("ending"));  // copies that were begun write to what is unmapped here
  if (device_->given_up()) return;
  for (segment_index segment = 0; segment < layout().count(); ++segment) {
    if (state(segment) == segment_state::mapped) api().cuMemUnmap(address_of(segment), taken_bytes(segment));
    if (state(segment) != segment_state::absent) api().cuMemRelease(handles_[segment]);
  }
  if (stream_ != nullptr) api().cuStreamDestroy(stream_);
  if (base_ != 0) api().cuMemAddressFree(base_, round_up(layout().full_bytes, piece_bytes_));
}

std::uint64_t cuda_arena::taken_bytes(segment_index segment) const noexcept { return round_up(layout().size_of(segment), piece_bytes_); }

std::string cuda_arena::describe(segment_index segment) const {
  return "cuda:" + std::to_string(device_->number()) + ": segment " + std::to_string(segment) + " of " + std::to_string(taken_bytes(segment) >> 20) + " MiB";
}

std::string cuda_arena::describe(const char* what) const { return "cuda:" + std::to_string(device_->number()) + ": " + what; }

result<std::uint64_t> cuda_arena::free_bytes() const {
  const auto now = device_->memory();
  if (!now) return fail(now.error());
  return now->free_bytes;
}

// Puts the memory of a segment at its address.
result<void> cuda_arena::place(segment_index segment) {
  const std::uint64_t size = taken_bytes(segment);
  if (auto mapped = api().check(api().cuMemMap(address_of(segment), size, 0, handles_[segment], 0), describe(segment) + " cannot be mapped"); !mapped)
    return mapped;
  const CUmemAccessDesc access{kind_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  auto allowed = api().check(api().cuMemSetAccess(address_of(segment), size, &access, 1), describe(segment) + " cannot be made accessible");
  if (!allowed) api().cuMemUnmap(address_of(segment), size);
  return allowed;
}

// Nothing is mapped, unmapped or copied on a GPU that did not answer: what it was told before may still be under way.
result<void> cuda_arena::make_ready() const {
  if (device_->given_up()) return fail(errc::card_lost, describe("the GPU did not answer in time before"));
  return device_->make_current();
}

result<void> cuda_arena::do_map(segment_index segment) {
  if (auto ready = make_ready(); !ready) return ready;
  if (auto taken = api().check(api().cuMemCreate(&handles_[segment], taken_bytes(segment), &kind_, 0), describe(segment) + " cannot be taken"); !taken)
    return taken;
  auto placed = place(segment);
  if (!placed) api().cuMemRelease(handles_[segment]);
  return placed;
}

result<void> cuda_arena::do_unmap(segment_index segment) {
  if (auto ready = make_ready(); !ready) return ready;
  return api().check(api().cuMemUnmap(address_of(segment), taken_bytes(segment)), describe(segment) + " cannot be unmapped");
}

result<void> cuda_arena::do_remap(segment_index segment) {
  if (auto ready = make_ready(); !ready) return ready;
  return place(segment);
}

// It only fails on a wrong handle, or on a device that is lost and has given all its memory back.
void cuda_arena::do_release(segment_index segment) noexcept {
  if (!device_->given_up()) static_cast<void>(api().cuMemRelease(handles_[segment]));
}

result<void> cuda_arena::do_begin_copy_in(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (auto ready = make_ready(); !ready) return ready;
  return api().check(api().cuMemcpyHtoDAsync(base_ + offset, bytes.data(), bytes.size(), stream_), describe("copying an expert in"));
}

result<void> cuda_arena::do_begin_copy_within(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  if (auto ready = make_ready(); !ready) return ready;
  return api().check(api().cuMemcpyDtoDAsync(base_ + to, base_ + from, size, stream_), describe("copying within the cache"));
}

// The stream keeps them in order.
result<void> cuda_arena::do_finish_copies() {
  if (auto ready = make_ready(); !ready) return ready;
  return await_copies("waiting for copies");
}

result<void> cuda_arena::await_copies(const char* what) const {
  const CUresult state = cuda::wait_while(CUDA_ERROR_NOT_READY, [this] { return api().cuStreamQuery(stream_); }, limits::gpu_copy_timeout);
  if (state != CUDA_ERROR_NOT_READY) return api().check(state, describe(what));
  device_->give_up();
  return fail(errc::card_lost, describe(what) + ": not done within " + std::to_string(limits::gpu_copy_timeout.count() / 1000) + " s");
}

result<void> cuda_arena::copy_out(std::uint64_t offset, std::span<std::byte> bytes) const {
  EBB_ASSERT(is_mapped(offset, bytes.size()));
  if (auto ready = make_ready(); !ready) return ready;
  const auto begun = api().check(api().cuMemcpyDtoHAsync(bytes.data(), base_ + offset, bytes.size(), stream_), describe("copying out"));
  return begun ? await_copies("copying out") : begun;
}

}  // namespace ebb::kernels
