// tools/ebb/streaming.hpp: one answer shown while it comes in, whoever computes it.
#pragma once
#include "tools/connection.hpp"
#include "tools/ebb/commands.hpp"

namespace ebb::tools {

// Sends the request, prints the text on stdout as it comes (JSON: every reply as a line), the summary on stderr, and gives the
// exit code.
int stream_answer(connection& through, const generate_options& options);

}  // namespace ebb::tools
