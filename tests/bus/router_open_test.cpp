// Where a router_socket may listen, and where not.
#include "bus/client_socket.hpp"
#include "bus/endpoint.hpp"
#include "bus/router_socket.hpp"
#include "tests/bus/support/test_server.hpp"
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;
namespace fs = std::filesystem;

result<std::unique_ptr<router_socket>> opened(const std::string& endpoint) { return router_socket::open({endpoint}); }

std::string refusal_of(const std::string& endpoint, errc code) {
  const auto socket = opened(endpoint);
  REQUIRE_FALSE(socket.has_value());
  CHECK(to_string(socket.error().code) == to_string(code));
  return socket.error().text;
}

unsigned mode_of(const fs::path& path) {
  struct stat found {};
  REQUIRE(::lstat(path.c_str(), &found) == 0);
  return found.st_mode & 07777;
}

// What a daemon that was killed leaves: a socket file that nobody listens on.
void leave_socket_file(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  std::copy(text.begin(), text.end(), address.sun_path);
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ::close(dead);
}

}  // namespace

TEST_CASE("the socket file is its owner's alone, and so are the folders made for it, whatever the umask") {
  const temporary_folder folder;
  const mode_t before = ::umask(0);
  const auto socket = opened("ipc://" + (folder / "a/b/commands").string());
  ::umask(before);
  REQUIRE(socket);
  CHECK(mode_of(folder / "a/b/commands") == 0600);
  CHECK(mode_of(folder / "a/b") == 0700);
  CHECK(mode_of(folder / "a") == 0700);
}

TEST_CASE("the socket of a live daemon is not taken, and it goes on answering") {
  test_server server(test_server::echo);
  const std::string path = server.address().substr(6);
  CHECK(refusal_of(server.address(), errc::refused) ==
        "socket " + path + ": another daemon answers there; stop it, or give this one another [bus] listen");
  auto client = client_socket::connect(server.address(), patience);
  REQUIRE(client);
  REQUIRE(client->send(as_bytes("HELLO")));
  CHECK(client->receive(patience));
}

TEST_CASE("the socket file of a dead daemon is replaced") {
  const temporary_folder folder;
  leave_socket_file(folder / "commands");
  CHECK(opened("ipc://" + (folder / "commands").string()));
}

TEST_CASE("a file that is no socket is left alone") {
  const temporary_folder folder;
  std::ofstream(folder / "commands") << "precious";
  const std::string path = (folder / "commands").string();
  CHECK(refusal_of("ipc://" + path, errc::refused) ==
        "socket " + path + ": a file that is no socket is in the way; move it, or choose another path");
  CHECK(fs::file_size(path) == 8);
}

TEST_CASE("a folder that others may write to is refused, unless it is sticky") {
  const temporary_folder folder;
  const std::string path = (folder / "commands").string();
  ::chmod(folder.path().c_str(), 0777);
  CHECK(refusal_of("ipc://" + path, errc::refused) ==
        "socket " + path + ": others may write to its folder; chmod go-w " + folder.path().string() + ", or choose another");
  ::chmod(folder.path().c_str(), 01777);
  CHECK(opened("ipc://" + path));
}

TEST_CASE("a path that is too long or cannot be made is refused with its name") {
  const std::string path = "/tmp/" + std::string(103, 'x');
  CHECK(refusal_of("ipc://" + path, errc::bad_value) ==
        "socket " + path + ": the path has 108 bytes, but the system takes at most 107; choose a shorter one");
  CHECK(refusal_of("ipc:///proc/none/commands", errc::file_unwritable).find("/proc/none") != std::string::npos);
}

TEST_CASE("without keys only the loopback may be listened on") {
  const std::string why =
      ": without [bus] curve_keys only 127.0.0.1 and [::1] may be listened on; make keys with `ebb keys server FILE`, or use a "
      "tunnel (ssh -L) for other machines";
  for (const std::string endpoint : {"tcp://0.0.0.0:0", "tcp://*:0", "tcp://192.168.1.1:0", "tcp://[::]:0", "tcp://localhost:0",
                                     "tcp://127.0.0.1.evil.org:0", "tcp://eth0:0"}) {
    CHECK(refusal_of(endpoint, errc::refused) == "endpoint " + endpoint + why);
  }
  CHECK(opened("tcp://127.0.0.1:0"));
  CHECK(opened("tcp://127.1.2.3:0"));
}

TEST_CASE("a tcp port that is taken is refused with its name") {
  const auto first = opened("tcp://127.0.0.1:0");
  REQUIRE(first);
  const std::string taken = (*first)->endpoints().front();
  CHECK(refusal_of(taken, errc::refused) ==
        "endpoint " + taken + ": Address already in use; choose another port in [bus] listen");
}

TEST_CASE("all endpoints are bound or none") {
  const temporary_folder folder;
  const auto socket = router_socket::open({"ipc://" + (folder / "commands").string(), "tcp://0.0.0.0:1"});
  CHECK_FALSE(socket.has_value());
  CHECK_FALSE(fs::exists(folder / "commands"));
}

TEST_CASE("an endpoint of no known form is refused with the forms that are") {
  const std::string forms = "; write ipc:///absolute/path or tcp://127.0.0.1:PORT";
  const auto refused = [](const std::string& text) { return parse_endpoint(text).error().text; };
  CHECK(refused("") == "endpoint \"\" is of no known kind" + forms);
  CHECK(refused("inproc://x") == "endpoint \"inproc://x\" is of no known kind" + forms);
  CHECK(refused("ipc://commands") == "endpoint \"ipc://commands\" has no absolute path of a socket" + forms);
  CHECK(refused("ipc:///tmp/") == "endpoint \"ipc:///tmp/\" has no absolute path of a socket" + forms);
  for (const std::string text :
       {"tcp://127.0.0.1", "tcp://:1", "tcp://127.0.0.1:", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:-1"}) {
    CHECK(refused(text) == "endpoint \"" + text + "\" is not a host and a port from 0 to 65535" + forms);
  }
}

TEST_CASE("the default endpoint lies in the runtime folder of the user") {
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("XDG_RUNTIME_DIR", "/run/somewhere", 1);
  CHECK(default_endpoint() == "ipc:///run/somewhere/ebb/commands");
  ::setenv("XDG_RUNTIME_DIR", "relative", 1);
  const std::string user = std::to_string(::getuid());
  const std::string fallback = fs::is_directory("/run/user/" + user) ? "/run/user/" + user + "/ebb" : "/tmp/ebb-" + user;
  CHECK(default_endpoint() == "ipc://" + fallback + "/commands");
  before != nullptr ? ::setenv("XDG_RUNTIME_DIR", saved.c_str(), 1) : ::unsetenv("XDG_RUNTIME_DIR");
}
