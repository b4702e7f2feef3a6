#include "tools/synthetic_file.hpp"
#include "bus/file_descriptor.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ebb::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t piece_bytes = 1u << 20;  // at most: large enough for the disk, small enough for many threads. Changing it changes every file
constexpr std::chrono::milliseconds progress_interval{100};

tl::unexpected<error> unwritable(const fs::path& path, const std::string& why) { return fail(errc::file_unwritable, path.string() + " cannot be written: " + why); }

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1u << 30));
  return text;
}

struct piece {
  std::uint32_t tensor;
  std::uint64_t first_block, n_blocks;
};

std::uint64_t blocks_per_piece(const model::tensor_plan& tensor) { return piece_bytes / kernels::info(tensor.format).bytes_per_block; }

// What is there already, and whether it may go.
result<void> check_target(const fs::path& path, bool overwrite) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return {};
    return unwritable(path, std::strerror(errno));
  }
  if (!S_ISREG(found.st_mode)) return unwritable(path, "it is there and is no regular file");
  if (!overwrite) return unwritable(path, "it is there; give --force to overwrite it, or another name");
  return {};
}

// Room for the file in its folder, what it replaces counted in.
result<void> check_room(const fs::path& path, std::uint64_t size_bytes) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return unwritable(path, "its folder " + folder.string() + ": " + std::strerror(errno));
  std::uint64_t free_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  struct stat replaced {};
  if (::lstat(path.c_str(), &replaced) == 0) free_bytes += static_cast<std::uint64_t>(replaced.st_blocks) * 512;
  if (size_bytes <= free_bytes) return {};
  return unwritable(path, "it takes " + gib(size_bytes) + ", and " + folder.string() + " has " + gib(free_bytes) +
                              " free; make fewer layers or experts (--layers, --experts), or write it elsewhere");
}

// A file that is gone again unless it was kept.
class fresh_file {
 public:
  static result<fresh_file> create(const fs::path& path, std::uint64_t size_bytes) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return unwritable(path, std::strerror(errno));
    fresh_file made(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!made.file_.is_open()) return unwritable(path, std::strerror(errno));
    // Taken at once where the file system can, so that nobody else takes the room meanwhile.
    if (::fallocate(made.file_.get(), 0, 0, static_cast<off_t>(size_bytes)) == 0) return made;
    if (errno == ENOSPC || ::ftruncate(made.file_.get(), static_cast<off_t>(size_bytes)) != 0) return unwritable(path, std::strerror(errno));
    return made;
  }

  fresh_file(fresh_file&&) = default;
  ~fresh_file() {
    if (file_.is_open()) ::unlink(path_.c_str());
  }

  // From any thread. 0, or the system's error number.
  int write(std::span<const std::byte> bytes, std::uint64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
    return 0;
  }

  result<void> keep() {
    if (::close(file_.release()) == 0) return {};
    const int code = errno;
    ::unlink(path_.c_str());
    return unwritable(path_, std::strerror(code));
  }

 private:
  fresh_file(fs::path path, int opened) : path_(std::move(path)), file_(opened) {}

  fs::path path_;
  bus::file_descriptor file_;
};

// The threads and what they share: the next piece, and the first error.
class piece_writers {
 public:
  piece_writers(const synthetic_model& model, const model::gguf_layout& layout, const fresh_file& file, const std::stop_token& stop)
      : model_(model), layout_(layout), file_(file), stop_(stop) {
    for (std::uint32_t index = 0; index < model.tensors.size(); ++index) add_pieces(index);
  }

  // Returns when all is written, or none of it goes on. 0, or the system's error number.
  int run(unsigned n_threads, const std::function<void(double)>& progress) {
    running_ = n_threads;
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < n_threads; ++i) threads.emplace_back([this] { write_pieces(); });
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, progress_interval, [this] { return running_ == 0; })) {
      if (progress) progress(static_cast<double>(written_bytes_) / static_cast<double>(layout_.size_bytes));
    }
    return failure_;
  }

 private:
  void add_pieces(std::uint32_t index) {
    const model::tensor_plan& tensor = model_.tensors[index];
    const std::uint64_t n_blocks = tensor.size_bytes() / kernels::info(tensor.format).bytes_per_block, step = blocks_per_piece(tensor);
    for (std::uint64_t first = 0; first < n_blocks; first += step) pieces_.push_back({index, first, std::min(step, n_blocks - first)});
  }

  void write_pieces() {
    std::vector<std::byte> buffer(piece_bytes);
    int failure = 0;
    while (failure == 0 && failure_ == 0 && !stop_.stop_requested()) {
      const std::size_t next = next_++;
      if (next >= pieces_.size()) break;
      failure = write_piece(pieces_[next], buffer);
    }
    const std::scoped_lock lock(mutex_);
    if (failure != 0) failure_ = failure;
    if (--running_ == 0) ended_.notify_one();
  }

  int write_piece(const piece& what, std::vector<std::byte>& buffer) {
    const model::tensor_plan& tensor = model_.tensors[what.tensor];
    const kernels::format_info& format = kernels::info(tensor.format);
    const std::span<std::byte> bytes(buffer.data(), what.n_blocks * format.bytes_per_block);
    counted_random random({model_.seed, number_of(tensor.name), what.first_block});
    draw_values(tensor.format, model_.spreads[what.tensor], what.first_block * format.values_per_block, tensor.dims[0], random, bytes);
    const int failure = file_.write(bytes, layout_.offsets[what.tensor] + what.first_block * format.bytes_per_block);
    written_bytes_ += bytes.size();
    return failure;
  }

  const synthetic_model& model_;
  const model::gguf_layout& layout_;
  const fresh_file& file_;
  std::stop_token stop_;
  std::vector<piece> pieces_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> written_bytes_ = 0;
  std::atomic<int> failure_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  unsigned running_ = 0;  // guarded by mutex_
};

}  // namespace

result<std::uint64_t> write_synthetic(const synthetic_model& model, const fs::path& path, const write_options& options) {
  const model::gguf_layout layout = lay_out(model.keys, model.tensors);
  if (const auto may = check_target(path, options.overwrite); !may) return fail(may.error());
  if (const auto fits = check_room(path, layout.size_bytes); !fits) return fail(fits.error());
  auto file = fresh_file::create(path, layout.size_bytes);
  if (!file) return fail(std::move(file.error()));
  piece_writers writers(model, layout, *file, options.stop);
  int failure = writers.run(std::max(options.n_threads, 1u), options.progress);
  if (failure == 0 && options.stop.stop_requested()) return fail(errc::cancelled, path.string() + ": stopped, and the file removed");
  if (failure == 0) failure = file->write(layout.header, 0);
  if (failure != 0) return unwritable(path, std::string(std::strerror(failure)) + "; the file was removed");
  if (const auto kept = file->keep(); !kept) return fail(kept.error());
  if (options.progress) options.progress(1);
  return layout.size_bytes;
}

}  // namespace ebb::tools
