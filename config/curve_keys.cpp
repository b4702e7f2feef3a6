#include "config/curve_keys.hpp"
#include "config/limits.hpp"
#include "config/nearest.hpp"
#include "config/private_file.hpp"
#include "config/toml_place.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <optional>

namespace ebb {
namespace {

constexpr std::array<std::string_view, 3> server_names = {"public", "secret", "clients"};
constexpr std::array<std::string_view, 3> client_names = {"public", "secret", "server"};
constexpr std::size_t name_characters_shown_max = 20;  // of a key in the file; a longer one may be a secret

constexpr std::string_view z85_digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

tl::unexpected<error> not_a_key(const std::string& what) {
  return fail(errc::bad_value, what + " is no key; a key is text of " + std::to_string(curve_key_characters) +
                                   " characters of Z85, as `ebb keys` writes it");
}

// The keys of one file, whose exceptions end here. What toml++ says of a wrong place would quote it, so only the line is told.
class key_table {
 public:
  static result<key_table> parse(std::string_view toml, std::string_view file, const std::array<std::string_view, 3>& known) try {
    key_table read(toml::parse(toml, file), file);
    if (auto all_known = read.check_names(known); !all_known) return fail(all_known.error());
    return read;
  } catch (const toml::parse_error& wrong) {
    return fail(errc::malformed, place_of(file, wrong.source()) + ": this is no TOML; a line is a name, = and a text in double quotes");
  } catch (const std::exception&) {
    return fail(errc::malformed, std::string(file) + ": this is no TOML");
  }

  result<std::string> key(std::string_view name) const {
    const toml::node* const node = table_.get(name);
    return node == nullptr ? missing(name) : key_at(*node, std::string(name));
  }

  result<std::vector<std::string>> keys(std::string_view name) const {
    const toml::node* const node = table_.get(name);
    if (node == nullptr) return missing(name);
    const toml::array* const list = node->as_array();
    if (list == nullptr)
      return fail(errc::bad_value, at(*node) + std::string(name) + " is no list; write " + std::string(name) + " = [\"KEY\", ...]");
    if (list->size() > limits::curve_clients_max) return too_many(*node, name, list->size());
    std::vector<std::string> all;
    for (const toml::node& each : *list) {
      auto taken = key_at(each, std::string(name) + "[" + std::to_string(all.size()) + "]");
      if (!taken) return fail(taken.error());
      all.push_back(*std::move(taken));
    }
    return all;
  }

  // Where the list begins: line and column of its bracket, from 1. Pre: keys(name) succeeded.
  toml::source_position start_of(std::string_view name) const { return table_.get(name)->source().begin; }

 private:
  key_table(toml::table&& table, std::string_view file) : table_(std::move(table)), file_(file) {}

  std::string at(const toml::node& node) const { return place_of(file_, node.source()) + ": "; }

  result<std::string> key_at(const toml::node& node, const std::string& name) const {
    const auto* text = node.as_string();
    if (text == nullptr || !is_curve_key(text->get())) return not_a_key(at(node) + name);
    return text->get();
  }

  tl::unexpected<error> missing(std::string_view name) const {
    return fail(errc::missing_key, file_ + ": " + std::string(name) + " is missing; `ebb keys` makes a file that has it");
  }

  tl::unexpected<error> too_many(const toml::node& node, std::string_view name, std::size_t count) const {
    return fail(errc::bad_value, at(node) + std::string(name) + " has " + std::to_string(count) + " keys; allowed: up to " +
                                     std::to_string(limits::curve_clients_max));
  }

  result<void> check_names(const std::array<std::string_view, 3>& known) const {
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string shown = name.size() > name_characters_shown_max ? "a long name" : in_quotes(name);
      const std::string allowed = "; allowed: " + std::string(known[0]) + ", " + std::string(known[1]) + ", " + std::string(known[2]);
      const std::string guess = did_you_mean(name, known);
      return fail(errc::unknown_key, place_of(file_, key.source()) + ": " + shown + " is unknown here" + (guess.empty() ? allowed : guess));
    }
    return {};
  }

  toml::table table_;
  std::string file_;
};

struct key_pair {
  std::string public_key;
  std::string secret_key;
};

result<key_pair> read_pair(const key_table& from) {
  auto own = from.key("public");
  if (!own) return fail(own.error());
  auto secret = from.key("secret");
  if (!secret) return fail(secret.error());
  return key_pair{*std::move(own), *std::move(secret)};
}

result<curve_server_keys> server_keys_of(const key_table& from) {
  auto pair = read_pair(from);
  if (!pair) return fail(pair.error());
  auto clients = from.keys("clients");
  if (!clients) return fail(clients.error());
  return curve_server_keys{pair->public_key, pair->secret_key, *std::move(clients)};
}

// Where the byte lies at this line and column, counted in characters from 1.
std::size_t offset_of(std::string_view text, const toml::source_position& where) {
  std::size_t offset = 0;
  for (std::uint32_t line = 1; line < where.line; ++line) offset = std::min(text.find('\n', offset), text.size() - 1) + 1;
  const auto begins_character = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80; };
  for (std::uint32_t column = 1; column < where.column && offset < text.size(); ++column) {
    do ++offset;
    while (offset < text.size() && !begins_character(offset));
  }
  return offset;
}

}  // namespace

bool is_curve_key(std::string_view text) noexcept {
  if (text.size() != curve_key_characters) return false;
  constexpr std::size_t group = 5;  // characters that are four bytes together
  for (std::size_t begin = 0; begin < text.size(); begin += group) {
    std::uint64_t value = 0;
    for (const char digit : text.substr(begin, group)) {
      const std::size_t worth = z85_digits.find(digit);
      if (worth == std::string_view::npos) return false;
      value = value * z85_digits.size() + worth;
    }
    if (value > UINT32_MAX) return false;
  }
  return true;
}

result<curve_server_keys> parse_server_keys(std::string_view toml, std::string_view file) {
  return key_table::parse(toml, file, server_names).and_then(server_keys_of);
}

result<curve_client_keys> parse_client_keys(std::string_view toml, std::string_view file) {
  const auto table = key_table::parse(toml, file, client_names);
  if (!table) return fail(table.error());
  auto pair = read_pair(*table);
  if (!pair) return fail(pair.error());
  auto server = table->key("server");
  if (!server) return fail(server.error());
  return curve_client_keys{pair->public_key, pair->secret_key, *std::move(server)};
}

result<curve_server_keys> read_server_keys(const std::filesystem::path& file) {
  return read_private_file(file).and_then([&](const std::string& toml) { return parse_server_keys(toml, file.string()); });
}

result<curve_client_keys> read_client_keys(const std::filesystem::path& file) {
  return read_private_file(file).and_then([&](const std::string& toml) { return parse_client_keys(toml, file.string()); });
}

std::string to_toml(const curve_server_keys& keys) {
  std::string toml =
      "# The keys of a daemon, for [bus] curve_keys. Its owner's alone: chmod 600.\n"
      "public = \"" +
      keys.public_key +
      "\"\n"
      "secret = \"" +
      keys.secret_key +
      "\"\n"
      "# The public key of each client that may connect; they count from the daemon's next start.\n"
      "clients = [";
  for (const std::string& client : keys.clients) toml += "\n  \"" + client + "\",";
  return toml + (keys.clients.empty() ? "]\n" : "\n]\n");
}

std::string to_toml(const curve_client_keys& keys) {
  return "# The keys of a client, for ebb --keys. Its owner's alone: chmod 600.\n"
         "public = \"" +
         keys.public_key +
         "\"\n"
         "secret = \"" +
         keys.secret_key +
         "\"\n"
         "# The public key of the daemon that it may talk to.\n"
         "server = \"" +
         keys.server_key + "\"\n";
}

result<std::string> with_client(std::string_view toml, std::string_view file, std::string_view client) {
  if (!is_curve_key(client)) return not_a_key("the new client's key");
  const auto table = key_table::parse(toml, file, server_names);
  if (!table) return fail(table.error());
  const auto keys = server_keys_of(*table);
  if (!keys) return fail(keys.error());
  std::string text(toml);
  if (std::find(keys->clients.begin(), keys->clients.end(), client) != keys->clients.end()) return text;
  // Before the first one there is always room: TOML allows a comma after the last.
  const std::size_t bracket = offset_of(text, table->start_of("clients"));
  text.insert(std::min(bracket + 1, text.size()), "\n  \"" + std::string(client) + "\"," + (keys->clients.empty() ? "\n" : ""));
  const auto again = parse_server_keys(text, file);
  if (again && again->clients.size() == keys->clients.size() + 1 && again->clients.front() == client) return text;
  return fail(errc::internal, std::string(file) + ": cannot tell where `clients` begins; add the key there by hand");
}

}  // namespace ebb
