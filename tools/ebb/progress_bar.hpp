// tools/ebb/progress_bar.hpp: how far a long step is, on a line of stderr that is gone when it is done.
#pragma once
#include <functional>
#include <string>

namespace ebb::tools {

// Takes the share that is done, in [0, 1]. Empty where stderr is no terminal.
std::function<void(double)> progress_bar(std::string doing);

}  // namespace ebb::tools
