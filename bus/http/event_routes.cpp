// bus/http/event_routes.cpp: /v1/events, what happens as a stream. One who reads too slowly is dropped, as on the bus he loses some.
#include "bus/http/all_routes.hpp"
#include "bus/http/inbox.hpp"
#include "bus/http/problem.hpp"
#include "bus/to_json.hpp"
#include <memory>

namespace ebb::bus::http {
namespace {

std::string shown(const event& what) {
  return "event: " + std::string(name_of_event(what.body)) + "\nid: " + std::to_string(what.sequence) + "\ndata: " + to_line(to_json(what)) + "\n\n";
}

// Hears events until it is destroyed.
class ear {
 public:
  ear(context& of, std::shared_ptr<peer> whose, room::places place) : port_(of.port), peer_(std::move(whose)), place_(std::move(place)) {
    number_ = port_.listen([this](const event& what) { heard_.put(what); });
    peer_->when_left([this] { heard_.close(); });
  }
  ~ear() {
    peer_->when_left({});
    port_.unlisten(number_);
  }
  ear(const ear&) = delete;
  ear& operator=(const ear&) = delete;

  void pass_on(body_writer& out) {
    if (!out.write(": events\n\n")) return;  // so that the client knows at once that it is connected
    while (!heard_.closed()) {
      const auto next = heard_.take(std::chrono::steady_clock::now() + limits::http_ping_interval);
      if (!out.write(next ? shown(*next) : ": ping\n\n")) return;
    }
  }

 private:
  command_port& port_;
  std::shared_ptr<peer> peer_;
  room::places place_;
  inbox<event> heard_{limits::http_listener_queue_max};
  std::uint64_t number_ = 0;
};

response follow(context& of, const request& asked) {
  auto place = of.listeners.take(1);
  if (!place) return response_of({429, "busy", std::to_string(limits::http_listeners_max) + " streams of events are open already; close one, or try again later", {}});
  auto listening = std::make_shared<ear>(of, asked.peer, std::move(place));
  return {.status = 200, .type = "text/event-stream", .body = {}, .headers = {}, .stream = [listening](body_writer& out) { listening->pass_on(out); }};
}

}  // namespace

void add_event_routes(routes& into, context& of) {
  into.add("GET", "/v1/events", [&of](const request& asked) { return follow(of, asked); });
}

}  // namespace ebb::bus::http
