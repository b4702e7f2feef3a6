#include "bus/http/service.hpp"
#include "bus/http/all_routes.hpp"
#include "bus/http/api_key.hpp"
#include "bus/http/server.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <sys/resource.h>
#include <utility>

namespace ebb::bus::http {
namespace {

// Descriptors of the rest of the daemon: sockets of the bus, the model's file, a journal.
constexpr rlim_t descriptors_beside = 512;

// Many systems let a process have 1024 unless it asks for more.
void ask_for_descriptors() {
  rlimit now{};
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0) return;
  const rlim_t wanted = limits::http_connections_max + descriptors_beside;
  if (now.rlim_cur >= wanted) return;
  now.rlim_cur = std::min(wanted, now.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &now);  // without, connections beyond it wait for one at rest to end
}

}  // namespace

class service::whole {
 public:
  whole(const service_options& from, command_port& port, listener at, guard_rules rules)
      : context_{.port = port, .version = from.version, .model = from.model, .running = from.running, .settings_file = from.settings_file},
        server_(std::move(at), all_routes(context_), std::move(rules)) {}

  http::server& server() noexcept { return server_; }

 private:
  context context_;
  http::server server_;
};

service::service(std::unique_ptr<whole> made) : whole_(std::move(made)) {}
service::~service() = default;

result<std::unique_ptr<service>> service::open(const service_options& options, command_port& port) {
  auto at = listener::open(options.running.http.listen);
  if (!at) return fail(at.error());
  guard_rules rules{.key = {}, .trusted_origins = options.running.http.trusted_origins, .address = at->address, .loopback = at->loopback};
  if (!options.running.http.api_key_file.empty()) {
    auto key = read_api_key(options.running.http.api_key_file, options.warn);
    if (!key) return fail(key.error());
    rules.key = *std::move(key);
  }
  if (!at->loopback && rules.key.empty()) {
    return fail(errc::refused, "setting `http.listen`: other machines can reach " + options.running.http.listen +
                                   ", and no key is asked for; set http.api_key_file, or listen at 127.0.0.1");
  }
  ask_for_descriptors();
  return std::unique_ptr<service>(new service(std::make_unique<whole>(options, port, *std::move(at), std::move(rules))));
}

void service::start() { whole_->server().start(); }
void service::stop() { whole_->server().stop(); }
const std::string& service::url() const noexcept { return whole_->server().url(); }

}  // namespace ebb::bus::http
