// actors/event_sink.hpp: where an actor says what has happened. Called from any thread; never blocks.
#pragma once
#include "bus/events.hpp"
#include <functional>

namespace ebb::actors {

using event_sink = std::function<void(bus::event_body)>;

// For whoever has nobody to tell.
inline event_sink no_events() {
  return [](const bus::event_body&) {};
}

}  // namespace ebb::actors
