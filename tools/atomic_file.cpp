#include "tools/atomic_file.hpp"
#include "bus/file_descriptor.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ebb::tools {
namespace {

namespace fs = std::filesystem;

tl::unexpected<error> unwritable(const fs::path& path, int code) { return fail(errc::file_unwritable, path.string() + ": " + std::strerror(code)); }

tl::unexpected<error> unreadable(const fs::path& path, const std::string& why) { return fail(errc::file_unreadable, path.string() + " cannot be read: " + why); }

// Writes all of it and waits for the disk. 0, or the system's error number.
int write_through(int file, bus::bytes_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

int synchronise_folder(const fs::path& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return errno;
  const int code = ::fsync(opened) == 0 ? 0 : errno;
  ::close(opened);
  return code;
}

}  // namespace

result<void> replace_file(const fs::path& path, bus::bytes_view content) {
  const fs::path fresh = path.string() + ".new", folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return unwritable(fresh, errno);
  const int code = write_through(file, content);
  ::close(file);
  if (code != 0) return unwritable(fresh, code);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return unwritable(path, errno);
  if (const int folder_code = synchronise_folder(folder); folder_code != 0) return unwritable(folder, folder_code);
  return {};
}

result<std::optional<bus::bytes>> read_file(const fs::path& path, std::size_t bytes_max) {
  const bus::file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe in its place must not hold us up
  if (!file.is_open() && errno == ENOENT) return std::nullopt;
  struct stat found {};
  if (!file.is_open() || ::fstat(file.get(), &found) != 0) return unreadable(path, std::strerror(errno));
  if (!S_ISREG(found.st_mode)) return unreadable(path, S_ISDIR(found.st_mode) ? "it is a folder" : "it is no regular file");
  bus::bytes content;
  while (content.size() <= bytes_max) {
    constexpr std::size_t step_bytes = 64u << 10;
    const std::size_t before = content.size();
    content.resize(before + step_bytes);
    const ssize_t got = ::read(file.get(), content.data() + before, step_bytes);
    const int code = errno;
    content.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (got < 0 && code != EINTR) return unreadable(path, std::strerror(code));
  }
  return fail(errc::too_large, path.string() + " has more than " + std::to_string(bytes_max) + " bytes");
}

}  // namespace ebb::tools
