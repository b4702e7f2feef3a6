#include "tools/state_file.hpp"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <unistd.h>

namespace ebb::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "ledger.msgpack";

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

tl::unexpected<error> unwritable(const fs::path& path, int code) {
  return fail(errc::file_unwritable, path.string() + ": " + std::strerror(code) + "; reserves and leases are kept there, choose another place with `state_dir`");
}

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

fs::path default_state_folder() {
  if (const fs::path state = variable("XDG_STATE_HOME"); state.is_absolute()) return state / "ebb";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".local" / "state" / "ebb";
  return "/var/lib/ebb";
}

result<std::unique_ptr<state_file>> state_file::open(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return unwritable(folder, failed.value());
  fs::permissions(folder, fs::perms::owner_all, failed);  // of another owner's folder this fails, and the lock below decides
  const fs::path lock_path = folder / "lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return unwritable(lock_path, errno);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return fail(errc::busy, folder.string() + " is in use by another ebbd; stop that one, or give this one a place of its own with `state_dir`");
  }
  return std::unique_ptr<state_file>(new state_file(folder, lock));
}

state_file::~state_file() { ::close(lock_); }

result<std::optional<bus::ledger_state>> state_file::read() const {
  const fs::path path = folder_ / file_name;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::optional<bus::ledger_state>{};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto state = bus::decode_state(bus::as_bytes(text));
  if (state) return std::optional(std::move(*state));
  const fs::path aside = path.string() + ".damaged";
  std::error_code ignored;
  fs::rename(path, aside, ignored);
  return fail(errc::corrupt, path.string() + ": " + state.error().text + "; it was moved to " + aside.string() + ", and reserves and leases begin anew");
}

result<void> state_file::write(const bus::ledger_state& what) const {
  const fs::path path = folder_ / file_name, fresh = folder_ / (std::string(file_name) + ".new");
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return unwritable(fresh, errno);
  const int code = write_through(file, bus::encode_state(what));
  ::close(file);
  if (code != 0) return unwritable(fresh, code);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return unwritable(path, errno);
  if (const int folder_code = synchronise_folder(folder_); folder_code != 0) return unwritable(folder_, folder_code);
  return {};
}

}  // namespace ebb::tools
