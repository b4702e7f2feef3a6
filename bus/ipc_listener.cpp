#include "bus/ipc_listener.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace ebb::bus {
namespace {

namespace fs = std::filesystem;

constexpr mode_t folder_mode = 0700;
constexpr mode_t socket_mode = 0600;
constexpr int clients_queued_max = 128;  // not yet accepted; the I/O thread accepts within microseconds

std::string at(const fs::path& path, std::string_view what) { return "socket " + path.string() + ": " + std::string(what); }

tl::unexpected<error> failed_call(const fs::path& path, std::string_view call) {
  return fail(errc::file_unwritable, at(path, std::string(call) + ": " + std::strerror(errno)));
}

result<sockaddr_un> address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof(address.sun_path)) {
    return fail(errc::bad_value,
                at(path, "the path has " + std::to_string(text.size()) + " bytes, but the system takes at most " +
                             std::to_string(sizeof(address.sun_path) - 1) + "; choose a shorter one"));
  }
  std::copy(text.begin(), text.end(), address.sun_path);
  return address;
}

file_descriptor new_socket() { return file_descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

result<void> create_folder(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return {};
  if (auto parent = create_folder(folder.parent_path()); !parent) return parent;
  if (::mkdir(folder.c_str(), folder_mode) != 0 && errno != EEXIST) return failed_call(folder, "cannot create the folder");
  return {};
}

// Who may put files into the folder could put a socket of his own in the place of ours. In a sticky folder (/tmp) he cannot.
result<void> check_folder(const fs::path& folder, const fs::path& path) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) return failed_call(path, "cannot look at its folder");
  const bool others_write = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (others_write && (found.st_mode & S_ISVTX) == 0) {
    return fail(errc::refused, at(path, "others may write to its folder; chmod go-w " + folder.string() + ", or choose another"));
  }
  return {};
}

// Whether a program accepts connections there. A full queue is one too busy to accept just now.
bool is_live(const sockaddr_un& address) {
  const file_descriptor probe = new_socket();
  return ::connect(probe.get(), generic(address), sizeof(address)) == 0 || errno == EAGAIN;
}

// Makes way for a new socket, or says why not.
result<void> clear(const fs::path& path, const sockaddr_un& address, std::string_view setting) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode))
    return fail(errc::refused, at(path, "a file that is no socket is in the way; move it, or choose another path"));
  if (is_live(address)) {
    return fail(errc::refused, at(path, "another daemon answers there; stop it, or give this one another " + std::string(setting)));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed_call(path, "cannot remove what a dead daemon left");
  return {};
}

}  // namespace

result<file_descriptor> listen_privately(const fs::path& path, std::string_view setting) {
  const auto address = address_of(path);
  if (!address) return fail(address.error());
  if (auto made = create_folder(path.parent_path()); !made) return fail(made.error());
  if (auto safe = check_folder(path.parent_path(), path); !safe) return fail(safe.error());
  if (auto cleared = clear(path, *address, setting); !cleared) return fail(cleared.error());

  file_descriptor listener = new_socket();
  if (!listener.is_open()) return failed_call(path, "cannot create a socket");
  // The file gets the mode that the socket has when it is bound: there is no moment at which others could connect.
  if (::fchmod(listener.get(), socket_mode) != 0) return failed_call(path, "cannot set the mode");
  if (::bind(listener.get(), generic(*address), sizeof(*address)) != 0) return failed_call(path, "cannot bind");
  if (::listen(listener.get(), clients_queued_max) != 0) return failed_call(path, "cannot listen");
  return listener;
}

}  // namespace ebb::bus
