// bus/http/service.hpp: Ebb over HTTP. Every route asks the daemon by the messages of the bus and has nothing of its own.
//
// Routes are added by one function a file, listed in bus/http/all_routes.hpp.
#pragma once
#include "bus/command_port.hpp"
#include "config/result.hpp"
#include "config/settings.hpp"
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace ebb::bus::http {

struct service_options {
  settings running;                                              // as the daemon was started
  std::string version;
  std::string model;                                             // what /v1/models calls it
  std::filesystem::path settings_file;                           // that /v1/config edits; empty: there is none
  std::function<void(const error&)> warn = [](const error&) {};  // of a key file that others may read
};

class service {
 public:
  // Binds the address; connections wait until start(). Errors: those of listener::open; refused (an address that other machines reach, without
  // a key); of the key file: file_unreadable, bad_value.
  static result<std::unique_ptr<service>> open(const service_options& options, command_port& port);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  void start();
  // Ends what is under way. No call of the port is made after it.
  void stop();

  const std::string& url() const noexcept;

 private:
  class whole;
  explicit service(std::unique_ptr<whole> made);
  std::unique_ptr<whole> whole_;
};

}  // namespace ebb::bus::http
