// tools/daemon.hpp: an engine behind a socket.
#pragma once
#include "bus/http/service.hpp"
#include "bus/journal_writer.hpp"
#include "bus/router_socket.hpp"
#include "config/settings.hpp"
#include "tools/engine.hpp"
#include "tools/event_publisher.hpp"
#include "tools/inner_clients.hpp"
#include "tools/state_file.hpp"
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ebb::tools {

class daemon {
 public:
  // Binds the endpoints and HTTP's address first, so that a second daemon learns at once that there is one, then loads the model. Of the requests that
  // come meanwhile, those about memory (vram, lease) are kept and carried out after the load, `status` is answered with "loading" and
  // the others with `not_loaded`. Errors: those of router_socket::open, http::service::open, bus::load_server_keys, state_file::open, engine::start; and
  // of state_file::read all but corrupt, since leases that are not known must not be given to others.
  static result<std::unique_ptr<daemon>> start(const engine_options& options);

  // Answers what is open with `cancelled`, then closes the socket.
  ~daemon();
  daemon(const daemon&) = delete;
  daemon& operator=(const daemon&) = delete;

  const tools::engine& engine() const noexcept { return *engine_; }
  const std::vector<std::string>& endpoints() const noexcept { return socket_->endpoints(); }
  std::string url() const { return http_ ? http_->url() : std::string(); }  // of HTTP; empty: it is off

  // What the user should know about the state that was kept from the last daemon; none: all of it holds.
  std::optional<error> state_trouble() const { return state_damaged_ ? state_damaged_ : engine_->state_refused(); }

 private:
  daemon();
  void take_outer_frame(const bus::client_id& from, bus::bytes_view frame);
  void take_frame(const bus::client_id& from, bus::bytes_view frame);
  void client_left(const bus::client_id& who);
  void send(const bus::client_id& to, const bus::reply& what, bool text);

  result<void> open_doors(const engine_options& options);
  result<void> open_http(const engine_options& options);
  bus::status_report without_model() const;
  std::optional<bus::reply> pass_on(const bus::client_id& from, const bus::request& asked);
  bool keep_for_later(const bus::client_id& from, const bus::request& asked);
  bool has_room() const;
  void carry_out_kept();

  std::string model_;
  std::unique_ptr<state_file> state_;
  std::optional<bus::ledger_state> state_before_;  // that an earlier daemon kept; none: nothing, or
  std::optional<error> state_damaged_;             // it could not be read
  inner_clients inner_;                            // outlives events_, the engine and HTTP, which all tell it something
  std::unique_ptr<event_publisher> events_;       // outlives the engine, which tells it what happens
  std::unique_ptr<bus::journal_writer> journal_;  // none: no journal is kept
  std::unique_ptr<bus::router_socket> socket_;
  std::unique_ptr<tools::engine> engine_;
  std::unique_ptr<bus::http::service> http_;      // none: it is off

  mutable std::mutex mutex_;
  bool stopping_ = false;                                          // guarded by mutex_, as are the next two
  tools::engine* ready_ = nullptr;                                 // the engine while it takes requests
  std::vector<std::pair<bus::client_id, bus::request>> kept_;     // that came during the load, in order; at most in_flight_max
};

}  // namespace ebb::tools
