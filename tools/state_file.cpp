#include "tools/state_file.hpp"
#include "config/limits.hpp"
#include "tools/atomic_file.hpp"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
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

constexpr const char* way_out =
    "; reserves and leases are kept there, and ebbd does not start without knowing them: make it readable, or move it away to begin with none, or "
    "choose another place with `state_dir`";

result<error> move_aside(const fs::path& path, const fs::path& aside, error why) {
  std::error_code failed;
  fs::rename(path, aside, failed);
  if (failed) return unwritable(path, failed.value());
  why.text = path.string() + ": " + why.text + "; it was moved to " + aside.string() + ", and reserves and leases begin anew";
  return why;
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
  const auto kept = read_file(path, limits::message_bytes_max);
  if (!kept && kept.error().code == errc::file_unreadable) return fail(errc::file_unreadable, kept.error().text + way_out);
  if (kept && !*kept) return std::nullopt;
  auto state = kept ? bus::decode_state(**kept) : fail(kept.error());
  if (state) return std::optional(std::move(*state));
  auto told = move_aside(path, path.string() + ".damaged", {errc::corrupt, state.error().text});
  if (!told) return fail(told.error());
  return fail(*std::move(told));
}

result<error> state_file::set_aside(error why, std::size_t cards) const {
  const fs::path path = folder_ / file_name;
  auto told = move_aside(path, path.string() + ".other-cards-" + std::to_string(cards), std::move(why));
  if (told) told->text += "; to have the old ones back, stop ebbd, move that file back and start with " + std::to_string(cards) + " card(s)";
  return told;
}

result<void> state_file::write(const bus::ledger_state& what) const {
  auto written = replace_file(folder_ / file_name, bus::encode_state(what));
  if (!written) return fail(written.error().code, written.error().text + advice);
  return written;
}

}  // namespace ebb::tools
