// model/quote.hpp: text from a file as it may stand in an error or on a terminal.
//
// In quotes, whatever is not plain ASCII as \xNN, and cut with "..." when long: a corrupt name may be megabytes of anything.
#pragma once
#include <string>
#include <string_view>

namespace ebb::model {

std::string quote(std::string_view text);

}  // namespace ebb::model
