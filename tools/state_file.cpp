#include "tools/state_file.hpp"
#include "tools/atomic_file.hpp"
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

constexpr const char* advice = "; reserves and leases are kept there, choose another place with `state_dir`";

tl::unexpected<error> unwritable(const fs::path& path, int code) { return fail(errc::file_unwritable, path.string() + ": " + std::strerror(code) + advice); }

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
  auto written = replace_file(folder_ / file_name, bus::encode_state(what));
  if (!written) return fail(written.error().code, written.error().text + advice);
  return written;
}

}  // namespace ebb::tools
