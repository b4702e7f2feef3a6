#include "bus/client_socket.hpp"
#include "bus/ipc_listener.hpp"
#include "config/limits.hpp"
#include "tests/bus/support/test_server.hpp"
#include <catch2/catch.hpp>
#include <csignal>
#include <sys/wait.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

}  // namespace

TEST_CASE("where no daemon is, connecting fails at once and says what to do") {
  const temporary_folder folder;
  const std::string nowhere = "ipc://" + (folder / "commands").string();
  for (const std::string& address : {nowhere, std::string("tcp://127.0.0.1:1")}) {
    const auto began = std::chrono::steady_clock::now();
    const auto client = client_socket::connect(address, patience);
    REQUIRE_FALSE(client.has_value());
    CHECK(to_string(client.error().code) == to_string(errc::refused));
    CHECK(client.error().text == "no daemon at " + address + "; start ebbd, or pass --connect with its address");
    CHECK(std::chrono::steady_clock::now() - began < patience / 2);
  }
}

TEST_CASE("a socket that accepts and says nothing ends in a time-out that names it") {
  const temporary_folder folder;
  const auto listener = listen_privately(folder / "commands");
  REQUIRE(listener);
  const std::string address = "ipc://" + (folder / "commands").string();
  const auto client = client_socket::connect(address, 50ms);
  REQUIRE_FALSE(client.has_value());
  CHECK(to_string(client.error().code) == to_string(errc::timed_out));
  CHECK(client.error().text == "the daemon at " + address + " did not answer within 50 ms; is it stopped?");
}

TEST_CASE("a daemon that does not answer ends the wait, and the next answer is still received") {
  test_server server(test_server::keep_silent);
  auto client = client_socket::connect(server.address(), patience);
  REQUIRE(client);
  REQUIRE(client->send(as_bytes("HELLO")));
  const auto nothing = client->receive(20ms);
  REQUIRE_FALSE(nothing.has_value());
  CHECK(to_string(nothing.error().code) == to_string(errc::timed_out));
  CHECK(nothing.error().text == "the daemon at " + server.address() + " sent nothing within 20 ms");

  REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  REQUIRE(server.socket().send(server.happened().front().who, bytes(3)));
  CHECK(client->receive(patience).value_or(bytes{}).size() == 3);
}

TEST_CASE("a daemon that leaves is noticed at once, after what it sent before") {
  test_server server(test_server::echo);
  const std::string address = server.address();
  auto client = client_socket::connect(address, patience);
  REQUIRE(client);
  constexpr int requests = 50;
  for (int count = 0; count < requests; ++count) REQUIRE(client->send(as_bytes("HELLO")));
  REQUIRE(server.wait_for_count(happening::kind::frame, requests));
  server.stop();
  for (int count = 0; count < requests; ++count) REQUIRE(client->receive(patience));
  const auto after = client->receive(patience);
  REQUIRE_FALSE(after.has_value());
  CHECK(after.error().text == "the daemon at " + address + " has gone; start ebbd again");
  CHECK(client->send(as_bytes("HELLO")).error().text == after.error().text);
}

TEST_CASE("a message over the limit is refused before it is sent") {
  test_server server(test_server::echo);
  auto client = client_socket::connect(server.address(), patience);
  REQUIRE(client);
  CHECK(client->send(bytes(limits::message_bytes_max + 1)).error().text ==
        "the message has 16777217 bytes; the daemon takes at most 16777216");
  REQUIRE(client->send(bytes(limits::message_bytes_max)));
  CHECK(client->receive(patience).value_or(bytes{}).size() == limits::message_bytes_max);
}

TEST_CASE("a client that is killed is noticed") {
  int address_pipe[2];
  REQUIRE(::pipe(address_pipe) == 0);
  const pid_t child = ::fork();  // before the server's threads are
  if (child == 0) {
    char address[200] = {};
    if (::read(address_pipe[0], address, sizeof(address) - 1) <= 0) ::_exit(1);
    auto client = client_socket::connect(address, patience);
    if (client) static_cast<void>(client->send(as_bytes("HELLO")));
    while (true) ::pause();
  }
  test_server server(test_server::keep_silent);
  const std::string address = server.address();
  REQUIRE(::write(address_pipe[1], address.data(), address.size()) == std::ssize(address));
  CHECK(server.wait_for_count(happening::kind::frame, 1));
  ::kill(child, SIGKILL);
  CHECK(server.wait_for_count(happening::kind::gone, 1));
  ::waitpid(child, nullptr, 0);
  ::close(address_pipe[0]);
  ::close(address_pipe[1]);
}
