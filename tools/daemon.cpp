#include "tools/daemon.hpp"
#include "bus/codec.hpp"
#include "bus/crc32.hpp"
#include "bus/curve_keys.hpp"
#include "bus/endpoint.hpp"
#include "config/limits.hpp"
#include "tools/journal_state.hpp"
#include "tools/process_memory.hpp"
#include "tools/version.hpp"
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

namespace ebb::tools {
namespace {

std::vector<std::string> with_auto(std::vector<std::string> endpoints, const std::string& automatic) {
  std::replace(endpoints.begin(), endpoints.end(), std::string("auto"), automatic);
  return endpoints;
}

// Beside the commands: the file "events" where they are at "commands", else the same name and "-events".
std::string events_beside(const std::string& commands) {
  const std::string file = "commands";
  if (commands.ends_with("/" + file)) return commands.substr(0, commands.size() - file.size()) + "events";
  return commands + "-events";
}

std::vector<std::string> event_endpoints(const bus_settings& from, const std::vector<std::string>& commands) {
  const auto ipc = std::find_if(commands.begin(), commands.end(), [](const std::string& each) { return each.starts_with("ipc://"); });
  return with_auto(from.events, ipc == commands.end() ? bus::default_events_endpoint() : events_beside(*ipc));
}

// A folder for each place that a daemon may listen at, so that two daemons of one user keep apart.
std::filesystem::path state_folder(const settings& from, const std::vector<std::string>& commands) {
  if (!from.state_dir.empty()) return from.state_dir;
  if (from.bus.listen == bus_settings{}.listen) return default_state_folder() / "default";
  std::string all;
  for (const std::string& each : commands) all += each + "\n";
  char name[16];
  std::snprintf(name, sizeof name, "%08x", bus::crc32(bus::as_bytes(all)));
  return default_state_folder() / name;
}

result<std::optional<curve_server_keys>> keys_of(const bus_settings& from) {
  if (from.curve_keys.empty()) return std::optional<curve_server_keys>{};
  auto loaded = bus::load_server_keys(from.curve_keys);
  if (!loaded) return fail(loaded.error().code, "setting `bus.curve_keys`: " + loaded.error().text);
  return std::optional(*std::move(loaded));
}

void report_journal(const error& why) { std::fprintf(stderr, "ebbd: the journal ends here: %s\n", why.text.c_str()); }

result<std::unique_ptr<bus::journal_writer>> open_journal(const settings& from, const std::optional<bus::ledger_state>& before) {
  if (from.journal.empty()) return std::unique_ptr<bus::journal_writer>();
  std::map<std::string, std::string> about{{"settings", to_toml(from)}};
  if (before) add_state(about, *before);
  auto options = bus::journal_from_now(version, std::move(about));
  options.on_error = report_journal;
  auto opened = bus::journal_writer::open(from.journal, std::move(options));
  if (!opened) return fail(opened.error().code, "setting `journal`: " + opened.error().text);
  return opened;
}

}  // namespace

daemon::daemon()
    : inner_({.on_frame = [this](const bus::client_id& from, bus::bytes_view frame) { take_frame(from, frame); },
              .on_gone = [this](const bus::client_id& who) { client_left(who); }}) {}

result<void> daemon::open_doors(const engine_options& options) {
  const settings& from = options.from;
  const auto keys = keys_of(from.bus);
  if (!keys) return fail(keys.error());
  const auto endpoints = with_auto(from.bus.listen, bus::default_endpoint());
  auto socket = bus::router_socket::open(endpoints, *keys);
  if (!socket) return fail(socket.error());
  socket_ = std::move(*socket);
  std::unique_ptr<bus::publisher_socket> out;
  if (!from.bus.events.empty()) {
    auto opened = bus::publisher_socket::open(event_endpoints(from.bus, endpoints), *keys);
    if (!opened) return fail(opened.error());
    out = std::move(*opened);
  }
  events_ = std::make_unique<event_publisher>(std::move(out), [this](const bus::event& what) { inner_.tell(what); });
  auto state = state_file::open(state_folder(from, endpoints));
  if (!state) return fail(state.error());
  state_ = std::move(*state);
  if (auto before = state_->read()) state_before_ = std::move(*before);
  else if (before.error().code == errc::corrupt) state_damaged_ = before.error();
  else return fail(before.error());
  auto journal = open_journal(from, state_before_);
  if (!journal) return fail(journal.error());
  journal_ = std::move(*journal);
  return open_http(options);
}

result<void> daemon::open_http(const engine_options& options) {
  if (options.from.http.listen.empty()) return {};
  auto opened = bus::http::service::open({.running = options.from,
                                          .version = version,
                                          .model = std::filesystem::path(options.from.model).stem().string(),
                                          .settings_file = options.settings_file,
                                          .warn = options.warn},
                                         inner_);
  if (!opened) return fail(opened.error());
  http_ = std::move(*opened);
  return {};
}

result<std::unique_ptr<daemon>> daemon::start(const engine_options& options) {
  std::unique_ptr<daemon> started(new daemon);
  daemon* self = started.get();
  started->model_ = options.from.model;
  if (auto opened = started->open_doors(options); !opened) return fail(opened.error());
  started->socket_->start({.on_frame = [self](const bus::client_id& from, bus::bytes frame) { self->take_outer_frame(from, frame); },
                           .on_gone = [self](const bus::client_id& who) {
                             if (!inner_clients::is_inner(who)) self->client_left(who);
                           },
                           .has_room = [self] { return self->has_room(); }});
  if (started->http_) started->http_->start();
  engine_options wired = options;
  wired.state.before = started->state_before_;
  wired.profile_folder = started->state_->folder();
  wired.state.write_down = [self](const bus::ledger_state& what) { return self->state_->write(what); };
  wired.state.set_aside = [self](error why) { return self->state_->set_aside(std::move(why), self->state_before_->cards.size()); };
  wired.tell = [self](bus::event_body what) { self->events_->tell(std::move(what)); };
  wired.events = [self] { return self->events_->position(); };
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
  if (http_) http_->stop();
  if (socket_) socket_->stop();
}

// A client of the socket may choose its id, but not that of one in this process.
void daemon::take_outer_frame(const bus::client_id& from, bus::bytes_view frame) {
  if (!inner_clients::is_inner(from)) return take_frame(from, frame);
  const error why{errc::refused, "routing ids that begin so are the daemon's own; choose another one, or none"};
  static_cast<void>(socket_->send(from, bus::encode_reply({{}, why}, false)));
}

void daemon::take_frame(const bus::client_id& from, bus::bytes_view frame) {
  if (journal_) journal_->append(bus::journal_direction::in, from, frame);
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

bool daemon::has_room() const {
  const std::lock_guard lock(mutex_);
  return ready_ == nullptr || ready_->backlog() < limits::frames_waiting_max;
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
  if (journal_) journal_->append_gone(who);
  const std::lock_guard lock(mutex_);
  if (ready_ != nullptr) return ready_->client_left(who);
  // A lease is for whoever asks; a reserve is for the card, and stays wanted.
  std::erase_if(kept_, [&](const auto& each) { return each.first == who && std::holds_alternative<bus::lease>(each.second.command); });
}

// A client that takes no more replies is given up: an answer with holes would be worse than none, and nobody else waits for it.
void daemon::send(const bus::client_id& to, const bus::reply& what, bool text) {
  const bool inner = inner_clients::is_inner(to);
  if (inner && !journal_) return inner_.deliver(to, what);
  bus::bytes frame = bus::encode_reply(what, text);
  if (journal_) journal_->append(bus::journal_direction::out, to, frame);
  if (inner) return inner_.deliver(to, what);
  if (auto sent = socket_->send(to, std::move(frame)); !sent) client_left(to);
}

}  // namespace ebb::tools
