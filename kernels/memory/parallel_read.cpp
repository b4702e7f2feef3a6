#include "kernels/memory/parallel_read.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace ebb::kernels {
namespace {

struct chunk {
  store_piece from;
  std::byte* to;
};

// A chunk ends at a multiple of its size in the store, so that two threads seldom touch the same huge page first.
std::vector<chunk> chunks_of(std::span<const store_piece> pieces, std::byte* base, std::span<const std::uint64_t> offsets) {
  constexpr std::uint64_t unit = limits::store_chunk_bytes;
  std::vector<chunk> all;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const store_piece& piece = pieces[i];
    for (std::uint64_t done = 0; done < piece.mapped.size();) {
      const std::uint64_t at = offsets[i] + done;
      const std::uint64_t size = std::min(piece.mapped.size() - done, unit - at % unit);
      all.push_back({{piece.mapped.subspan(done, size), piece.file, piece.offset_bytes + done}, base + at});
      done += size;
    }
  }
  return all;
}

result<void> read_chunk(const chunk& what) {
  const auto [bytes, file, offset_bytes] = what.from;
  if (file < 0) {
    std::memcpy(what.to, bytes.data(), bytes.size());
    return {};
  }
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pread(file, what.to + done, bytes.size() - done, static_cast<off_t>(offset_bytes + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errc::file_unreadable, std::strerror(errno));
    if (n == 0) return fail(errc::file_unreadable, "it has become shorter while it was open");
    done += static_cast<std::size_t>(n);
  }
  return {};
}

class reading {
 public:
  reading(std::vector<chunk> chunks, const store_options& options) : chunks_(std::move(chunks)), options_(options) {
    for (const chunk& each : chunks_) total_bytes_ += each.from.mapped.size();
  }

  result<void> run() {
    {
      std::vector<std::jthread> others;
      const unsigned n_threads = std::clamp(options_.n_threads, 1u, limits::store_threads_max);
      for (unsigned i = 1; i < n_threads; ++i) others.emplace_back([this] { work({}); });
      work(options_.progress);
    }
    if (failure_) return fail(*failure_);
    if (options_.progress) options_.progress(1.0);
    return {};
  }

 private:
  void work(const std::function<void(double)>& progress) {
    for (;;) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= chunks_.size() || ended_.load()) return;
      if (options_.stop.stop_requested()) return end(errc::cancelled, "reading the model was stopped");
      if (auto done = read_chunk(chunks_[index]); !done)
        return end(done.error().code, "the model's file cannot be read: " + done.error().text);
      const std::uint64_t size = chunks_[index].from.mapped.size();
      const std::uint64_t done_bytes = done_bytes_.fetch_add(size) + size;
      if (progress) progress(static_cast<double>(done_bytes) / static_cast<double>(total_bytes_));
    }
  }

  void end(errc code, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error{code, options_.name + ": " + text};
    ended_.store(true);
  }

  const std::vector<chunk> chunks_;
  const store_options& options_;
  std::uint64_t total_bytes_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_bytes_{0};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::optional<error> failure_;
};

}  // namespace

result<void> read_pieces(std::span<const store_piece> pieces, std::byte* base, std::span<const std::uint64_t> offsets,
                         const store_options& options) {
  return reading(chunks_of(pieces, base, offsets), options).run();
}

}  // namespace ebb::kernels
