// Who may connect to a daemon, and what those are told who may not. Real sockets on every side.
#include "bus/client_socket.hpp"
#include "bus/curve_keys.hpp"
#include "bus/endpoint.hpp"
#include "bus/publisher_socket.hpp"
#include "bus/subscriber_socket.hpp"
#include "config/limits.hpp"
#include "config/private_file.hpp"
#include "tests/bus/support/test_server.hpp"
#include <catch2/catch.hpp>
#include <thread>
#include <zmq.hpp>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

// A daemon's keys with one client that it knows, and a client that it does not.
struct parties {
  curve_server_keys server = make_server_keys().value();
  curve_client_keys known = make_client_keys(server.public_key).value();
  curve_client_keys unknown = make_client_keys(server.public_key).value();
  parties() { server.clients.push_back(known.public_key); }
};

std::string refusal_of(const std::string& address, const std::optional<curve_client_keys>& keys) {
  const auto client = client_socket::connect(address, patience, keys);
  REQUIRE_FALSE(client.has_value());
  CHECK(to_string(client.error().code) == to_string(errc::refused));
  return client.error().text;
}

bool is_served(client_socket& client) {
  return client.send(as_bytes("HELLO")) && as_text(client.receive(patience).value_or(bytes{})) == "HELLO";
}

bool is_served(const std::string& address, const std::optional<curve_client_keys>& keys) {
  auto client = client_socket::connect(address, patience, keys);
  return client && is_served(*client);
}

// Where the endpoint that is bound to every address of the machine can be reached.
std::string local(std::string endpoint) {
  const std::string any = "0.0.0.0";
  const std::size_t at = endpoint.find(any);
  return at == std::string::npos ? endpoint : endpoint.replace(at, any.size(), "127.0.0.1");
}

}  // namespace

TEST_CASE("an address that other machines can reach is bound with keys only, and serves the clients that they name") {
  const parties they;
  CHECK_FALSE(router_socket::open({"tcp://0.0.0.0:0"}).has_value());
  CHECK_FALSE(publisher_socket::open({"tcp://0.0.0.0:0"}).has_value());
  test_server server(test_server::echo, {"tcp://0.0.0.0:0"}, they.server);
  const std::string address = local(server.socket().endpoints().at(1));
  CHECK(is_served(address, they.known));
}

TEST_CASE("a client whose key the daemon does not have is refused, is told its key, and keeps nobody else out") {
  const parties they;
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"}, they.server);
  const std::string address = server.socket().endpoints().at(1);
  auto before = client_socket::connect(address, patience, they.known);
  REQUIRE(before);
  CHECK(refusal_of(address, they.unknown) == "the daemon at " + address + " does not let this client in: put its public key, " +
                                                 they.unknown.public_key +
                                                 ", into `clients` of the daemon's file of keys and start ebbd again");
  CHECK(is_served(*before));
  CHECK(is_served(address, they.known));
  CHECK(server.happened().size() >= 2);
}

TEST_CASE("on the loopback too, a daemon with keys refuses a client without, and says what it needs") {
  const parties they;
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"}, they.server);
  const std::string address = server.socket().endpoints().at(1);
  CHECK(refusal_of(address, std::nullopt) ==
        "the daemon at " + address +
            " ended the handshake: it wants CURVE keys; make some there with `ebb keys client`, and pass --keys with the file");
  CHECK(server.happened().empty());
}

TEST_CASE("a client with another daemon's key is refused and told where to look") {
  const parties they;
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"}, they.server);
  curve_client_keys misled = they.known;
  misled.server_key = they.unknown.public_key;
  const std::string address = server.socket().endpoints().at(1);
  CHECK(refusal_of(address, misled) ==
        "the daemon at " + address + " did not finish the handshake; is its public key the `server` in the file of --keys?");
}

TEST_CASE("a client with keys at a daemon without is told so") {
  const parties they;
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"});
  const std::string text = refusal_of(server.socket().endpoints().at(1), they.known);
  CHECK((text.ends_with("has no CURVE keys; give it some ([bus] curve_keys), or leave --keys out") ||
         text.ends_with("is its public key the `server` in the file of --keys?")));
}

TEST_CASE("the socket file asks for no keys, whether it is bound before or after an address that does") {
  const parties they;
  const temporary_folder folder;
  const std::string file = "ipc://" + (folder / "later").string();
  test_server server(test_server::echo, {"tcp://127.0.0.1:0", file}, they.server);
  CHECK(is_served(server.address(), std::nullopt));
  CHECK(is_served(file, std::nullopt));
  CHECK(is_served(file, they.known));  // they count on tcp only
  CHECK_FALSE(client_socket::connect(server.socket().endpoints().at(1), patience).has_value());
}

TEST_CASE("with keys as without, a message of the greatest size is taken and a larger one ends its connection") {
  const parties they;
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"}, they.server);
  const std::string address = server.socket().endpoints().at(1);
  auto client = client_socket::connect(address, patience, they.known);
  REQUIRE(client);
  REQUIRE(client->send(bytes(limits::message_bytes_max)));
  CHECK(client->receive(patience).value_or(bytes{}).size() == limits::message_bytes_max);

  zmq::context_t context;
  zmq::socket_t rude(context, zmq::socket_type::dealer);
  rude.set(zmq::sockopt::linger, 0);
  rude.set(zmq::sockopt::curve_publickey, they.known.public_key);
  rude.set(zmq::sockopt::curve_secretkey, they.known.secret_key);
  rude.set(zmq::sockopt::curve_serverkey, they.known.server_key);
  rude.connect(address);
  rude.send(zmq::str_buffer("HELLO"), zmq::send_flags::none);
  REQUIRE(server.wait_for_count(happening::kind::frame, 2));
  const std::string large(limits::message_bytes_max + 1, '.');
  rude.send(zmq::buffer(large), zmq::send_flags::none);
  CHECK(server.wait_for_count(happening::kind::gone, 1));
  CHECK(is_served(*client));
}

TEST_CASE("many clients with keys, good and bad at once, are each told the truth") {
  const parties they;
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"}, they.server);
  const std::string address = server.socket().endpoints().at(1);
  std::vector<int> as_expected(6);
  std::vector<std::thread> clients;
  for (std::size_t index = 0; index < as_expected.size(); ++index) {
    clients.emplace_back([&, index] {
      for (int count = 0; count < 10; ++count) {
        const bool good = index % 2 == 0;
        as_expected[index] += is_served(address, good ? they.known : they.unknown) == good ? 1 : 0;
      }
    });
  }
  for (std::thread& each : clients) each.join();
  CHECK(as_expected == std::vector<int>(as_expected.size(), 10));
}

TEST_CASE("events too are for the clients that the keys name, and a subscriber that is not is told so") {
  const parties they;
  auto publisher = publisher_socket::open({"tcp://0.0.0.0:0"}, they.server);
  REQUIRE(publisher);
  const std::string address = local((*publisher)->endpoints().front());
  const auto refused = subscriber_socket::connect(address, patience, they.unknown);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text.find("does not let this client in") != std::string::npos);
  CHECK_FALSE(subscriber_socket::connect(address, patience).has_value());
  CHECK(subscriber_socket::connect(address, patience, they.known).has_value());
}

TEST_CASE("keys that are made can be read again, and a public key that is not the secret's is refused") {
  const temporary_folder folder;
  const parties they;
  REQUIRE(create_private_file(folder / "server", to_toml(they.server)));
  REQUIRE(create_private_file(folder / "client", to_toml(they.known)));
  CHECK(load_server_keys(folder / "server").value().clients == they.server.clients);
  CHECK(load_client_keys(folder / "client").value().server_key == they.server.public_key);

  curve_server_keys mixed = they.server;
  mixed.public_key = they.known.public_key;
  REQUIRE(create_private_file(folder / "mixed", to_toml(mixed)));
  const auto refused = load_server_keys(folder / "mixed");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().text == (folder / "mixed").string() + ": public is not the public key of secret; make a new file with `ebb keys`");
}

TEST_CASE("two keys that are made are never the same") {
  CHECK(make_server_keys().value().secret_key != make_server_keys().value().secret_key);
}
