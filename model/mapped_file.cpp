#include "model/mapped_file.hpp"
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace ebb::model {
namespace {

tl::unexpected<error> unreadable(const std::filesystem::path& path, const std::string& reason) {
  return fail(errc::file_unreadable, path.string() + " cannot be read: " + reason + ".");
}

tl::unexpected<error> unreadable_by_errno(const std::filesystem::path& path) {
  return unreadable(path, std::generic_category().message(errno));
}

}  // namespace

result<mapped_file> mapped_file::open(const std::filesystem::path& path) {
  // Non-blocking, because opening a pipe would otherwise wait for a writer before it can be refused.
  mapped_file file({}, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &status) != 0) return unreadable_by_errno(path);
  if (!S_ISREG(status.st_mode)) return unreadable(path, "it is not a regular file");
  const auto size_bytes = static_cast<std::size_t>(status.st_size);
  if (size_bytes == 0) return file;
  void* const start = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (start == MAP_FAILED) return unreadable_by_errno(path);
  file.bytes_ = {static_cast<const std::byte*>(start), size_bytes};
  return file;
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void read_through(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty()) return;
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t into_page = reinterpret_cast<std::uintptr_t>(bytes.data()) % page_bytes;
  // Advice only: without it the loop below reads page by page, slower but as well.
  ::madvise(const_cast<std::byte*>(bytes.data() - into_page), bytes.size() + into_page, MADV_WILLNEED);
  const auto touch = [](const std::byte& byte) { static_cast<void>(*const_cast<const volatile std::byte*>(&byte)); };
  for (std::size_t offset = 0; offset < bytes.size(); offset += page_bytes) touch(bytes[offset]);
  touch(bytes.back());  // the loop strides from the first byte, so it may stop short of the last page
}

}  // namespace ebb::model
