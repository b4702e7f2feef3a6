// model/jinja/json_text.hpp: the filter tojson as Hugging Face has it, which is Python's json.dumps: no HTML escapes, and letters
// beyond ASCII as they are unless asked otherwise.
#pragma once
#include "model/jinja/arguments.hpp"
#include "model/jinja/run.hpp"
#include "model/jinja/value.hpp"

namespace ebb::model::jinja {

// Arguments: ensure_ascii, indent, separators, sort_keys. Failed for what JSON has no form for (undefined, a macro).
value to_json(run& in, const value& of, const arguments& given);

}  // namespace ebb::model::jinja
