#include "config/curve_keys.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace ebb;

// The pair of RFC 26's examples, and another key.
const std::string public_key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string secret_key = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
const std::string other_key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";

std::string server_file(const std::string& rest) { return "public = \"" + public_key + "\"\nsecret = \"" + secret_key + "\"\n" + rest; }

std::string refusal_of(const std::string& toml, errc code) {
  const auto read = parse_server_keys(toml, "server.toml");
  REQUIRE_FALSE(read.has_value());
  CHECK(to_string(read.error().code) == to_string(code));
  CHECK(read.error().text.find(secret_key.substr(0, 10)) == std::string::npos);
  return read.error().text;
}

class key_file {
 public:
  explicit key_file(mode_t mode) : path_(std::filesystem::temp_directory_path() / ("ebb-keys-" + std::to_string(::getpid()))) {
    std::ofstream(path_) << server_file("clients = []\n");
    ::chmod(path_.c_str(), mode);
  }
  ~key_file() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("what is written as a file of keys is read as the same keys") {
  const curve_server_keys server{public_key, secret_key, {other_key, public_key}};
  const auto read = parse_server_keys(to_toml(server), "f");
  REQUIRE(read);
  CHECK(read->public_key == public_key);
  CHECK(read->secret_key == secret_key);
  CHECK(read->clients == server.clients);
  CHECK(parse_server_keys(to_toml(curve_server_keys{public_key, secret_key, {}}), "f")->clients.empty());

  const auto client = parse_client_keys(to_toml(curve_client_keys{public_key, secret_key, other_key}), "f");
  REQUIRE(client);
  CHECK(client->public_key == public_key);
  CHECK(client->secret_key == secret_key);
  CHECK(client->server_key == other_key);
}

TEST_CASE("a key is 40 characters that are 32 bytes in Z85, and nothing else") {
  CHECK(is_curve_key(secret_key));
  CHECK(is_curve_key(std::string(40, '0')));
  CHECK_FALSE(is_curve_key(std::string(39, '0')));
  CHECK_FALSE(is_curve_key(std::string(41, '0')));
  CHECK_FALSE(is_curve_key(std::string(39, '0') + "\""));
  CHECK(is_curve_key("%nSc0" + std::string(35, '0')));        // 2^32 - 1
  CHECK_FALSE(is_curve_key("%nSc1" + std::string(35, '0')));  // 2^32
}

TEST_CASE("a file of keys that is wrong is refused with its line and the way out, and never with what stands there") {
  CHECK(refusal_of(server_file(""), errc::missing_key) == "server.toml: clients is missing; `ebb keys` makes a file that has it");
  CHECK(refusal_of("public = \"" + public_key + "\"\nclients = []\n", errc::missing_key) ==
        "server.toml: secret is missing; `ebb keys` makes a file that has it");
  CHECK(refusal_of(server_file("clients = \"" + secret_key + "\""), errc::bad_value) ==
        "server.toml:3: clients is no list; write clients = [\"KEY\", ...]");
  CHECK(refusal_of(server_file("clients = [\"" + other_key + "\",\n \"" + secret_key + "x\"]"), errc::bad_value) ==
        "server.toml:4: clients[1] is no key; a key is text of 40 characters of Z85, as `ebb keys` writes it");
  CHECK(refusal_of("public = 7\nsecret = \"" + secret_key + "\"\nclients = []", errc::bad_value) ==
        "server.toml:1: public is no key; a key is text of 40 characters of Z85, as `ebb keys` writes it");
  CHECK(refusal_of(server_file("client = []"), errc::unknown_key) ==
        "server.toml:3: \"client\" is unknown here; did you mean \"clients\"?");
  CHECK(refusal_of(server_file("clients = []\n\"" + secret_key + "\" = 1"), errc::unknown_key) ==
        "server.toml:4: a long name is unknown here; allowed: public, secret, clients");
  CHECK(refusal_of(server_file("clients = []\nserver = \"" + other_key + "\""), errc::unknown_key).find("server.toml:4: \"server\"") == 0);
  CHECK(refusal_of("public = \"" + public_key + "\"\nsecret = " + secret_key, errc::malformed) ==
        "server.toml:2: this is no TOML; a line is a name, = and a text in double quotes");
}

TEST_CASE("a file has so many clients and no more") {
  const std::vector<std::string> most(limits::curve_clients_max, other_key);
  CHECK(parse_server_keys(to_toml(curve_server_keys{public_key, secret_key, most}), "f"));
  auto more = most;
  more.push_back(other_key);
  const auto refused = parse_server_keys(to_toml(curve_server_keys{public_key, secret_key, more}), "f");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text == "f:5: clients has 1025 keys; allowed: up to 1024");
}

TEST_CASE("a client is added to a daemon's file wherever its list stands, and comments stay") {
  const std::vector<std::string> lists = {"clients = []", "clients=[] # none", "clients = [\"" + other_key + "\"]",
                                          "\"clients\" = [\n # caf\xc3\xa9\n \"" + other_key + "\", # laptop\n]\n",
                                          "clients = [ # caf\xc3\xa9 [\n]"};
  for (const std::string& list : lists) {
    const std::string before = "# caf\xc3\xa9 [ clients\n" + server_file(list);
    const auto old = parse_server_keys(before, "f");
    REQUIRE(old);
    const auto after = with_client(before, "f", public_key);
    REQUIRE(after);
    const auto read = parse_server_keys(*after, "f");
    REQUIRE(read);
    REQUIRE(read->clients.size() == old->clients.size() + 1);
    CHECK(read->clients.front() == public_key);
    CHECK(std::count(after->begin(), after->end(), '#') == std::count(before.begin(), before.end(), '#'));
    CHECK(with_client(*after, "f", public_key).value() == *after);
  }
  CHECK(to_string(with_client(server_file("clients = []"), "f", "short").error().code) == to_string(errc::bad_value));
}

TEST_CASE("a file with a secret that others may open is refused with the chmod to run") {
  for (const mode_t mode : {0644, 0640, 0620, 0601}) {
    const key_file file(mode);
    const auto read = read_server_keys(file.path());
    REQUIRE_FALSE(read.has_value());
    CHECK(to_string(read.error().code) == to_string(errc::refused));
    const std::string path = file.path().string();
    CHECK(read.error().text == path + ": others may open this file, and it holds a secret; chmod 600 " + path);
  }
  CHECK(read_server_keys(key_file(0600).path()));
  CHECK(read_server_keys(key_file(0400).path()));
}

TEST_CASE("what is no file of keys is refused with its name") {
  CHECK(read_server_keys("/nonexistent/keys").error().text == "/nonexistent/keys: cannot be read: No such file or directory");
  CHECK(read_server_keys("/tmp").error().text == "/tmp: cannot be read: it is no plain file");
  const key_file file(0600);
  std::ofstream(file.path()) << std::string(limits::key_file_bytes_max + 1, '#');
  CHECK(to_string(read_server_keys(file.path()).error().code) == to_string(errc::too_large));
}
