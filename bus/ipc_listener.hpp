// bus/ipc_listener.hpp: a listening UNIX socket that only its owner may connect to, and that never takes a live daemon's place.
//
// ZeroMQ alone would remove whatever file is in the way and create the socket as the umask has it; so it is made here and
// handed over.
#pragma once
#include "bus/file_descriptor.hpp"
#include "config/result.hpp"
#include <filesystem>
#include <string_view>

namespace ebb::bus {

// The file has mode 0600 from its first moment. Folders that are missing are created with mode 0700; a file that a dead daemon
// left is replaced. The caller removes the file when it stops listening. `setting` is where the path was chosen, for error texts.
// Errors: bad_value (the path is too long), refused (a daemon answers there; a file that is no socket is there; anyone may put
// files into the folder), file_unwritable.
result<file_descriptor> listen_privately(const std::filesystem::path& path, std::string_view setting = "[bus] listen");

}  // namespace ebb::bus
