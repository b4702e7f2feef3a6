// config/curve_keys.hpp: the files of keys by which a daemon and its clients on other machines know each other (CURVE).
//
//   the daemon's file    public = "..."   secret = "..."   clients = ["public key of each client that may connect", ...]
//   a client's file      public = "..."   secret = "..."   server = "the daemon's public key"
//
// A key is 32 bytes in Z85: 40 characters (ZeroMQ RFC 32). Files with a secret are their owner's alone (config/private_file.hpp).
// No error says what stands where a key is meant: it may be a secret in the wrong place.
#pragma once
#include "config/result.hpp"
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ebb {

inline constexpr std::size_t curve_key_characters = 40;

struct curve_server_keys {
  std::string public_key;
  std::string secret_key;            // never shown
  std::vector<std::string> clients;  // their public keys; nobody else may connect
};

struct curve_client_keys {
  std::string public_key;
  std::string secret_key;  // never shown
  std::string server_key;  // the daemon's public key: whom this client trusts
};

// Whether it is the Z85 form of 32 bytes.
bool is_curve_key(std::string_view text) noexcept;

// `file` begins the error texts.
// Errors: malformed (no TOML), missing_key, unknown_key, bad_value (no key; too many clients).
result<curve_server_keys> parse_server_keys(std::string_view toml, std::string_view file);
result<curve_client_keys> parse_client_keys(std::string_view toml, std::string_view file);

// Errors: those of read_private_file, and those above.
result<curve_server_keys> read_server_keys(const std::filesystem::path& file);
result<curve_client_keys> read_client_keys(const std::filesystem::path& file);

// A whole file, with a word on each key.
std::string to_toml(const curve_server_keys& keys);
std::string to_toml(const curve_client_keys& keys);

// The daemon's file with one client more; comments and order stay. Unchanged if the client is there already.
// Errors: those of parse_server_keys; bad_value (`client` is no key, or one too many).
result<std::string> with_client(std::string_view toml, std::string_view file, std::string_view client);

}  // namespace ebb
