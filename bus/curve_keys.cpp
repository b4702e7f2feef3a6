#include "bus/curve_keys.hpp"
#include "config/assert.hpp"
#include <array>
#include <cstdint>
#include <zmq.h>

namespace ebb::bus {
namespace {

constexpr std::size_t key_bytes = 32;
using key_text = std::array<char, curve_key_characters + 1>;  // with the zero that ZeroMQ puts behind it

struct key_pair {
  key_text public_key{};
  key_text secret_key{};
};

result<key_pair> make_pair() {
  key_pair made;
  if (zmq_curve_keypair(made.public_key.data(), made.secret_key.data()) == 0) return made;
  return fail(errc::refused, "this system's ZeroMQ was built without CURVE; install one that has it, or use a tunnel (ssh -L)");
}

// Files are mended by hand, and keys of two files are easily mixed.
template <class Keys>
result<Keys> checked(Keys keys, const std::filesystem::path& file) {
  key_text derived{};
  if (zmq_curve_public(derived.data(), keys.secret_key.c_str()) == 0 && keys.public_key == derived.data()) return keys;
  return fail(errc::bad_value, file.string() + ": public is not the public key of secret; make a new file with `ebb keys`");
}

}  // namespace

result<curve_server_keys> make_server_keys() {
  return make_pair().map([](const key_pair& made) { return curve_server_keys{made.public_key.data(), made.secret_key.data(), {}}; });
}

result<curve_client_keys> make_client_keys(const std::string& server_public_key) {
  EBB_ASSERT(is_curve_key(server_public_key));
  return make_pair().map([&](const key_pair& made) {
    return curve_client_keys{made.public_key.data(), made.secret_key.data(), server_public_key};
  });
}

result<curve_server_keys> load_server_keys(const std::filesystem::path& file) {
  return read_server_keys(file).and_then([&](curve_server_keys keys) { return checked(std::move(keys), file); });
}

result<curve_client_keys> load_client_keys(const std::filesystem::path& file) {
  return read_client_keys(file).and_then([&](curve_client_keys keys) { return checked(std::move(keys), file); });
}

std::string decoded_curve_key(std::string_view key) {
  std::array<std::uint8_t, key_bytes> decoded{};
  const bool is_key = zmq_z85_decode(decoded.data(), std::string(key).c_str()) != nullptr;
  EBB_ASSERT(is_key);
  return {reinterpret_cast<const char*>(decoded.data()), decoded.size()};
}

}  // namespace ebb::bus
