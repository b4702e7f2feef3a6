// tests/tools/support/http_daemon.hpp: a daemon with the demo model, and HTTP at a free port.
#pragma once
#include "bus/http/listener.hpp"
#include "tests/bus/support/http_connection.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include "tests/tools/support/demo.hpp"
#include "tools/daemon.hpp"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ebb::tools::test {

using bus::test::http_connection;
using bus::test::http_response;
using json = nlohmann::json;


// As a setting: a port that was free a moment ago.
inline std::string free_address() {
  const std::string url = bus::http::listener::open("127.0.0.1:0")->url();
  return url.substr(url.find("//") + 2);
}

// A daemon with the demo model on two cards and a free port for HTTP, in a folder of its own.
class http_daemon {
 public:
  explicit http_daemon(const std::function<void(settings&)>& change = {}, const std::filesystem::path& settings_file = {}) {
    engine_options options = demo_on(2);
    options.settings_file = settings_file;
    options.from.bus.listen = {endpoint()};
    options.from.state_dir = (folder_ / "state").string();
    options.from.http.listen = free_address();
    if (change) change(options.from);
    auto opened = tools::daemon::start(options);
    if (!opened) throw std::runtime_error(opened.error().text);
    daemon_ = std::move(*opened);
  }

  std::string url() const { return daemon_->url(); }
  std::string endpoint() const { return "ipc://" + (folder_ / "commands").string(); }
  http_response ask(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {}) const {
    return http_connection(url()).ask(method, path, body, headers);
  }
  std::unique_ptr<connection> bus_client() const {
    auto connected = connect_to_daemon(endpoint());
    if (!connected) throw std::runtime_error(connected.error().text);
    return std::move(*connected);
  }
  std::uint32_t sessions() const { return ask("GET", "/v1/status").json().at("sessions").get<std::uint32_t>(); }
  void stop() { daemon_.reset(); }

 private:
  bus::test::temporary_folder folder_;
  std::unique_ptr<tools::daemon> daemon_;
};

// The JSON behind each "data: " of a stream of events, without its end mark.
inline std::vector<json> data_of(const std::string& stream) {
  std::vector<json> all;
  for (std::size_t at = stream.find("data: "); at != std::string::npos; at = stream.find("data: ", at + 1)) {
    const std::string line = stream.substr(at + 6, stream.find('\n', at) - at - 6);
    if (line != "[DONE]") all.push_back(json::parse(line));
  }
  return all;
}

// The beginning of a chat, to be gone on with.
inline const std::string chat = R"({"messages": [{"role": "user", "content": "In the beginning"}], "ignore_eos": true, "temperature": 0)";

inline std::string text_of(const json& answer) { return answer.at("choices").at(0).at("message").at("content").get<std::string>(); }

}  // namespace ebb::tools::test
