#include "tools/atomic_file.hpp"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace ebb::tools {
namespace {

namespace fs = std::filesystem;

tl::unexpected<error> unwritable(const fs::path& path, int code) { return fail(errc::file_unwritable, path.string() + ": " + std::strerror(code)); }

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

}  // namespace ebb::tools
