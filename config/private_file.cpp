#include "config/private_file.hpp"
#include "config/limits.hpp"
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace ebb {
namespace {

namespace fs = std::filesystem;

constexpr mode_t owner_alone = 0600;
constexpr mode_t rights_of_others = 0077;

std::string reason() { return std::generic_category().message(errno); }

tl::unexpected<error> unreadable(const fs::path& path, const std::string& why) {
  return fail(errc::file_unreadable, path.string() + ": cannot be read: " + why);
}

tl::unexpected<error> unwritable(const fs::path& path) {
  return fail(errc::file_unwritable, path.string() + ": cannot be written: " + reason());
}

class open_file {
 public:
  open_file(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, owner_alone)) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { close(); }

  bool is_open() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  bool close() noexcept {
    const bool well = fd_ < 0 || ::close(fd_) == 0;
    fd_ = -1;
    return well;
  }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// The first `bytes_max` bytes, or fewer if the file ends before; false if the system says no.
bool read_up_to(int fd, std::size_t bytes_max, std::string& into) {
  into.resize(bytes_max);
  std::size_t taken = 0;
  while (taken < bytes_max) {
    const ssize_t got = ::read(fd, into.data() + taken, bytes_max - taken);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    taken += static_cast<std::size_t>(got);
  }
  into.resize(taken);
  return true;
}

result<void> write_new(const fs::path& path, std::string_view text) {
  open_file file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.is_open() && errno == EEXIST) {
    return fail(errc::refused,
                path.string() + ": there is such a file already, and its keys may be in use; choose another name, or remove it first");
  }
  if (!file.is_open()) return unwritable(path);
  if (write_all(file.get(), text) && ::fsync(file.get()) == 0 && file.close()) return {};
  auto failed = unwritable(path);
  ::unlink(path.c_str());
  return failed;
}

}  // namespace

result<std::string> read_private_file(const fs::path& path) {
  const open_file file(path, O_RDONLY | O_NONBLOCK);  // a pipe in its place must not hold us up
  struct stat found {};
  if (!file.is_open() || ::fstat(file.get(), &found) != 0) return unreadable(path, reason());
  if (!S_ISREG(found.st_mode)) return unreadable(path, "it is no plain file");
  if ((found.st_mode & rights_of_others) != 0) {
    return fail(errc::refused, path.string() + ": others may open this file, and it holds a secret; chmod 600 " + path.string());
  }
  std::string text;
  if (!read_up_to(file.get(), limits::key_file_bytes_max + 1, text)) return unreadable(path, reason());
  if (text.size() <= limits::key_file_bytes_max) return text;
  return fail(errc::too_large, path.string() + ": a file of keys has at most " + std::to_string(limits::key_file_bytes_max) +
                                   " bytes; is it the right one?");
}

result<void> create_private_file(const fs::path& path, std::string_view text) { return write_new(path, text); }

result<void> replace_private_file(const fs::path& path, std::string_view text) {
  const fs::path next = path.string() + ".new-" + std::to_string(::getpid());
  if (auto written = write_new(next, text); !written) return written;
  if (::rename(next.c_str(), path.c_str()) == 0) return {};
  auto failed = unwritable(path);
  ::unlink(next.c_str());
  return failed;
}

}  // namespace ebb
