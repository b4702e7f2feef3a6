// tools/replay_target.hpp: what a journal is fed to: an engine in this process (virtual_engine.hpp), or a daemon (live_target.hpp).
#pragma once
#include "bus/bytes.hpp"
#include "bus/client_id.hpp"
#include "bus/journal_record.hpp"
#include "config/result.hpp"
#include <chrono>
#include <functional>
#include <memory>

namespace ebb::tools {

// Takes a frame on its way to a client.
using frame_sink = std::function<void(const bus::client_id& to, bus::bytes_view frame)>;

class replay_target {
 public:
  virtual ~replay_target() = default;

  // A frame from a client; replies come through the sink, within run_once(). Errors: of a daemon, those of bus::client_socket.
  virtual result<void> take(const bus::client_id& from, bus::bytes_view frame) = 0;
  virtual void client_left(const bus::client_id& who) = 0;

  // It is that late in the recording. Never back.
  virtual void move_to(std::chrono::nanoseconds at) = 0;

  // Goes on by as little as it can. False: it has come to rest, and of itself will say nothing more.
  virtual bool run_once() = 0;

  // As the recorded daemon was told to stop. A daemon of others is left alone.
  virtual void stop() = 0;

  // Whether commands fall between the same two windows each time.
  virtual bool repeats_exactly() const = 0;
};

// For one run of a journal.
using target_factory = std::function<result<std::unique_ptr<replay_target>>(const bus::journal_header& run, frame_sink sink)>;

}  // namespace ebb::tools
