// tools/ebb/events.cpp: `ebb events`: what happens, as it happens, a line each.
#include "bus/subscriber_socket.hpp"
#include "bus/events.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/ebb/reach.hpp"
#include "tools/exit_code.hpp"
#include "bus/to_json.hpp"
#include <algorithm>
#include <iostream>

namespace ebb::tools {
namespace {

constexpr std::chrono::milliseconds connect_timeout{2000};
constexpr std::chrono::milliseconds wait{1000};

// Of several endpoints the one that is reached like the commands.
std::string choose(const std::vector<std::string>& endpoints, const std::string& commands) {
  const bool tcp = commands.starts_with("tcp://");
  const auto same = std::find_if(endpoints.begin(), endpoints.end(), [&](const std::string& each) { return each.starts_with(tcp ? "tcp://" : "ipc://"); });
  return same == endpoints.end() ? endpoints.front() : *same;
}

void print(const bus::event& what, bool json) {
  const auto fields = to_json(what);
  if (json) {
    std::cout << bus::to_line(fields) << std::endl;
    return;
  }
  std::cout << fields["event"].get<std::string>();
  for (const auto& [key, value] : fields.items()) {
    if (key != "event" && key != "unix_ms") std::cout << ' ' << key << '=' << on_one_line(bus::to_line(value));
  }
  std::cout << std::endl;
}

}  // namespace

int events(const daemon_choice& daemon, const events_options& options) {
  auto reached = reach(daemon);
  if (!reached) return report_no_daemon(reached.error());
  const auto reply = ask(**reached, bus::subscribe{}, limits::status_timeout);
  if (!reply) return report_error(reply.error());
  const auto& where = std::get<bus::subscribed>(reply->body);
  if (where.endpoints.empty()) return report_error({errc::refused, "this daemon sends no events: its setting `bus.events` is empty"});
  const auto keys = keys_of(daemon);
  if (!keys) return report_no_daemon(keys.error());
  auto socket = bus::subscriber_socket::connect(choose(where.endpoints, daemon.endpoint), connect_timeout, *keys);
  if (!socket) return report_no_daemon(socket.error());
  std::uint64_t next = where.sequence + 1;
  for (std::uint64_t shown = 0; options.count == 0 || shown < options.count;) {
    const auto came = socket->receive(wait);
    if (!came && came.error().code == errc::timed_out) continue;
    if (!came) return report_no_daemon(came.error());
    const auto what = bus::decode_event(came->frame);
    if (!what) return report_error(what.error());
    if (what->sequence > next) std::cerr << "ebb: " << what->sequence - next << " event(s) were missed before the next one\n";
    next = what->sequence + 1;
    print(*what, options.json);
    ++shown;
  }
  return exit_ok;
}

}  // namespace ebb::tools
