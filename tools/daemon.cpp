#include "tools/daemon.hpp"
#include "bus/codec.hpp"
#include "bus/curve_keys.hpp"
#include "bus/endpoint.hpp"
#include "tools/process_memory.hpp"
#include "tools/version.hpp"
#include <algorithm>
#include <optional>

namespace ebb::tools {
namespace {

std::vector<std::string> endpoints_of(const bus_settings& from) {
  std::vector<std::string> all = from.listen;
  std::replace(all.begin(), all.end(), std::string("auto"), bus::default_endpoint());
  return all;
}

result<std::unique_ptr<bus::router_socket>> open_socket(const bus_settings& from) {
  std::optional<curve_server_keys> keys;
  if (!from.curve_keys.empty()) {
    auto loaded = bus::load_server_keys(from.curve_keys);
    if (!loaded) return fail(loaded.error().code, "setting `bus.curve_keys`: " + loaded.error().text);
    keys = *std::move(loaded);
  }
  return bus::router_socket::open(endpoints_of(from), keys);
}

}  // namespace

result<std::unique_ptr<daemon>> daemon::start(const engine_options& options) {
  std::unique_ptr<daemon> started(new daemon);
  daemon* self = started.get();
  started->model_ = options.from.model;
  auto socket = open_socket(options.from.bus);
  if (!socket) return fail(socket.error());
  started->socket_ = std::move(*socket);
  started->socket_->start({.on_frame = [self](const bus::client_id& from, bus::bytes frame) { self->take_frame(from, frame); },
                           .on_gone = [self](const bus::client_id& who) { self->client_left(who); }});
  auto engine = engine::start(options, [self](const bus::client_id& to, const bus::reply& what, bool text) { self->send(to, what, text); });
  if (!engine) return fail(engine.error());
  started->engine_ = std::move(*engine);
  started->ready_.store(started->engine_.get(), std::memory_order_release);
  return started;
}

// The engine stops first, so that its last replies still find the socket; it dies last, since a frame that the socket's thread is
// just passing on may still be on its way to it.
daemon::~daemon() {
  stopping_ = true;
  ready_.store(nullptr, std::memory_order_release);
  if (engine_) engine_->stop();
  if (socket_) socket_->stop();
}

void daemon::take_frame(const bus::client_id& from, bus::bytes_view frame) {
  auto asked = bus::decode_request(frame);
  if (!asked) {
    const bool text = asked.error().text;
    return send(from, bus::to_reply(std::move(asked.error())), text);
  }
  if (auto* engine = ready_.load(std::memory_order_acquire)) return engine->submit(from, *asked);
  if (std::holds_alternative<bus::status>(asked->command)) return send(from, {asked->id, without_model()}, asked->text);
  send(from, {asked->id, error{errc::not_loaded, "the model is being loaded, or the daemon is stopping; try again in a moment"}}, asked->text);
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
  if (auto* engine = ready_.load(std::memory_order_acquire)) engine->client_left(who);
}

// A client that takes no more replies is given up: an answer with holes would be worse than none, and nobody else waits for it.
void daemon::send(const bus::client_id& to, const bus::reply& what, bool text) {
  if (auto sent = socket_->send(to, bus::encode_reply(what, text)); !sent) client_left(to);
}

}  // namespace ebb::tools
