#include "tools/daemon.hpp"
#include "bus/codec.hpp"
#include "bus/endpoint.hpp"
#include "config/limits.hpp"
#include "tools/process_memory.hpp"
#include "tools/version.hpp"
#include <algorithm>

namespace ebb::tools {
namespace {

std::vector<std::string> endpoints_of(const bus_settings& from) {
  std::vector<std::string> all = from.listen;
  std::replace(all.begin(), all.end(), std::string("auto"), bus::default_endpoint());
  return all;
}

}  // namespace

result<std::unique_ptr<daemon>> daemon::start(const engine_options& options) {
  std::unique_ptr<daemon> started(new daemon);
  daemon* self = started.get();
  started->model_ = options.from.model;
  auto socket = bus::router_socket::open(endpoints_of(options.from.bus));
  if (!socket) return fail(socket.error());
  started->socket_ = std::move(*socket);
  auto state = state_file::open(options.from.state_dir.empty() ? default_state_folder() : std::filesystem::path(options.from.state_dir));
  if (!state) return fail(state.error());
  started->state_ = std::move(*state);
  started->socket_->start({.on_frame = [self](const bus::client_id& from, bus::bytes frame) { self->take_frame(from, frame); },
                           .on_gone = [self](const bus::client_id& who) { self->client_left(who); }});
  engine_options wired = options;
  if (auto before = self->state_->read()) wired.state.before = std::move(*before);
  else started->state_damaged_ = before.error();
  wired.state.write_down = [self](const bus::ledger_state& what) { return self->state_->write(what); };
  auto engine = engine::start(wired, [self](const bus::client_id& to, const bus::reply& what, bool text) { self->send(to, what, text); });
  if (!engine) return fail(engine.error());
  started->engine_ = std::move(*engine);
  started->carry_out_kept();
  return started;
}

// The engine stops first, so that its last replies still find the socket; it dies last, since a frame that the socket's thread is
// just passing on may still be on its way to it.
daemon::~daemon() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ready_ = nullptr;
  }
  if (engine_) engine_->stop();
  if (socket_) socket_->stop();
}

void daemon::take_frame(const bus::client_id& from, bus::bytes_view frame) {
  auto asked = bus::decode_request(frame);
  if (!asked) {
    const bool text = asked.error().text;
    return send(from, bus::to_reply(std::move(asked.error())), text);
  }
  if (auto answer = pass_on(from, *asked)) send(from, *answer, asked->text);
}

// The engine answers, now or after the load; or this does, at once.
std::optional<bus::reply> daemon::pass_on(const bus::client_id& from, const bus::request& asked) {
  const std::lock_guard lock(mutex_);
  if (ready_ != nullptr) {
    ready_->submit(from, asked);
    return std::nullopt;
  }
  if (std::holds_alternative<bus::status>(asked.command)) return bus::reply{asked.id, without_model()};
  if (keep_for_later(from, asked)) return std::nullopt;
  return bus::reply{asked.id, error{errc::not_loaded, "the model is being loaded, or the daemon is stopping; try again in a moment"}};
}

// What is asked about memory while there is no model yet must not be lost: its answer comes after the load.
bool daemon::keep_for_later(const bus::client_id& from, const bus::request& asked) {
  const bool about_memory = std::holds_alternative<bus::vram>(asked.command) || std::holds_alternative<bus::lease>(asked.command);
  if (stopping_ || !about_memory || kept_.size() >= limits::in_flight_max) return false;
  kept_.emplace_back(from, asked);
  return true;
}

void daemon::carry_out_kept() {
  const std::lock_guard lock(mutex_);
  for (const auto& [from, asked] : std::exchange(kept_, {})) engine_->submit(from, asked);
  ready_ = engine_.get();
}

// What is known before there is a model, and when it is gone.
bus::status_report daemon::without_model() const {
  bus::status_report known;
  known.version = version;
  known.state = stopping_ ? "stopping" : "loading";
  known.model = model_;
  const process_memory memory = read_process_memory();
  known.rss_mib = memory.rss_mib;
  known.rss_anon_mib = memory.rss_anon_mib;
  return known;
}

void daemon::client_left(const bus::client_id& who) {
  const std::lock_guard lock(mutex_);
  if (ready_ != nullptr) return ready_->client_left(who);
  // A lease is for whoever asks; a reserve is for the card, and stays wanted.
  std::erase_if(kept_, [&](const auto& each) { return each.first == who && std::holds_alternative<bus::lease>(each.second.command); });
}

// A client that takes no more replies is given up: an answer with holes would be worse than none, and nobody else waits for it.
void daemon::send(const bus::client_id& to, const bus::reply& what, bool text) {
  if (auto sent = socket_->send(to, bus::encode_reply(what, text)); !sent) client_left(to);
}

}  // namespace ebb::tools
