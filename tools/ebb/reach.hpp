// tools/ebb/reach.hpp: the way of the commands to a running daemon.
#pragma once
#include "config/curve_keys.hpp"
#include "tools/connection.hpp"
#include "tools/ebb/commands.hpp"
#include <memory>
#include <optional>

namespace ebb::tools {

// The client's keys, if the command names a file of them. Errors: bad_value.
result<std::optional<curve_client_keys>> keys_of(const daemon_choice& daemon);

// Errors: bad_value (the arguments are to be mended), else those of connect_to_daemon.
result<std::unique_ptr<connection>> reach(const daemon_choice& daemon);

// Prints why there is no way, and gives the exit code.
int report_no_daemon(const error& why);

}  // namespace ebb::tools
