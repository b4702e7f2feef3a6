#include "tools/ebb/reach.hpp"
#include "bus/curve_keys.hpp"
#include "bus/endpoint.hpp"
#include "tools/exit_code.hpp"

namespace ebb::tools {

result<std::optional<curve_client_keys>> keys_of(const daemon_choice& daemon) {
  if (daemon.keys.empty()) return std::optional<curve_client_keys>{};
  auto loaded = bus::load_client_keys(daemon.keys);
  // Whatever is wrong with the file, it is the arguments that are to be mended: the daemon has not been asked.
  if (!loaded) return fail(errc::bad_value, loaded.error().text);
  return std::optional(*std::move(loaded));
}

result<std::unique_ptr<connection>> reach(const daemon_choice& daemon) {
  auto keys = keys_of(daemon);
  if (!keys) return fail(keys.error());
  return connect_to_daemon(daemon.endpoint.empty() ? bus::default_endpoint() : daemon.endpoint, *keys);
}

int report_no_daemon(const error& why) {
  const int code = report_error(why);
  return why.code == errc::bad_value ? code : exit_no_daemon;
}

}  // namespace ebb::tools
