// bus/curve_keys.hpp: CURVE keys made and checked by ZeroMQ's own arithmetic. Their files are read in config/curve_keys.hpp.
#pragma once
#include "config/curve_keys.hpp"
#include "config/result.hpp"
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ebb::bus {

// What CURVE adds to a message of one part: a command's name, a nonce, a seal and the flags (ZeroMQ RFC 26).
inline constexpr std::size_t curve_overhead_bytes = 33;

// Fresh keys; no client may connect yet. Errors: refused (this ZeroMQ was built without CURVE).
result<curve_server_keys> make_server_keys();

// Fresh keys of a client that trusts the daemon with this public key. Errors: as above.
result<curve_client_keys> make_client_keys(const std::string& server_public_key);

// Reads a file and checks that the public key is that of the secret one. Errors: those of ebb::read_server_keys; bad_value.
result<curve_server_keys> load_server_keys(const std::filesystem::path& file);
result<curve_client_keys> load_client_keys(const std::filesystem::path& file);

// The 32 bytes of a key, as ZeroMQ shows them in a handshake. Pre: is_curve_key(key).
std::string decoded_curve_key(std::string_view key);

}  // namespace ebb::bus
