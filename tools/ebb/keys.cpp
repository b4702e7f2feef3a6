// tools/ebb/keys.cpp: makes the files of keys by which a daemon and its clients on other machines know each other.
#include "bus/curve_keys.hpp"
#include "config/private_file.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include <filesystem>
#include <iostream>

namespace ebb::tools {
namespace {

// Writes the client's file, and before that makes sure that the daemon's can be changed if it is to be.
result<curve_client_keys> make_client(const client_keys_options& options) {
  const auto server_toml = read_private_file(options.server_file);
  if (!server_toml) return fail(server_toml.error());
  const auto server = bus::load_server_keys(options.server_file);
  if (!server) return fail(server.error());
  auto client = bus::make_client_keys(server->public_key);
  if (!client) return client;
  const auto extended = with_client(*server_toml, options.server_file, client->public_key);
  if (options.add && !extended) return fail(extended.error());
  if (auto written = create_private_file(options.file, to_toml(*client)); !written) return fail(written.error());
  if (!options.add) return client;
  if (auto replaced = replace_private_file(options.server_file, *extended); !replaced) return fail(replaced.error());
  return client;
}

}  // namespace

int keys_server(const std::string& file) {
  const auto made = bus::make_server_keys();
  if (!made) return report_error(made.error());
  if (auto written = create_private_file(file, to_toml(*made)); !written) return report_error(written.error());
  std::cout << "wrote " << file << ", which only you can open; for the daemon's settings:\n[bus]\ncurve_keys = \""
            << std::filesystem::absolute(file).string() << "\"\n";
  return exit_ok;
}

int keys_client(const client_keys_options& options) {
  const auto made = make_client(options);
  if (!made) return report_error(made.error());
  std::cout << "wrote " << options.file << ", which only you can open; take it to the client and pass --keys with it\n";
  if (options.add) {
    std::cout << "added it to " << options.server_file << "; start ebbd again\n";
  } else {
    std::cout << "add this line to `clients` in " << options.server_file << " and start ebbd again:\n  \"" << made->public_key << "\",\n";
  }
  return exit_ok;
}

}  // namespace ebb::tools
