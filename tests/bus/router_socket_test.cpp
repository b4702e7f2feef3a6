#include "bus/router_socket.hpp"
#include "bus/client_socket.hpp"
#include "config/limits.hpp"
#include "tests/bus/support/test_server.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <thread>
#include <zmq.hpp>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

client_socket connected(const std::string& address) {
  auto client = client_socket::connect(address, patience);
  if (!client) throw std::runtime_error(client.error().text);
  return std::move(*client);
}

std::string received(client_socket& client) {
  const auto frame = client.receive(patience);
  return frame ? std::string(as_text(*frame)) : "error: " + frame.error().text;
}

// Answers each frame with a status reply that has its id.
void answer_status(test_server& server, const happening& asked) {
  const auto got = decode_request(asked.frame);
  const bytes answer =
      got ? encode_reply({got->id, status_report{}}, got->text) : encode_reply(to_reply(got.error()), got.error().text);
  if (!server.socket().send(asked.who, answer)) throw std::runtime_error("the backlog is full");
}

// How many of `count` requests were answered with their own id, over a DEALER with several under way.
int answered_over_dealer(const std::string& address, std::uint64_t first_id, std::uint64_t count) {
  client_socket client = connected(address);
  for (std::uint64_t at = 0; at < count; ++at) {
    if (!client.send(encode_request({{first_id + at}, false, status{}}))) return -1;
  }
  int answered = 0;
  for (std::uint64_t at = 0; at < count; ++at) {
    const auto frame = client.receive(patience);
    const auto answer = frame ? decode_reply(*frame) : result<reply>(fail(frame.error()));
    answered += answer && answer->id == request_id{first_id + at} ? 1 : 0;
  }
  return answered;
}

// The same over a REQ, which puts an empty part first and takes only answers that have it.
int answered_over_req(const std::string& address, std::uint64_t first_id, std::uint64_t count) {
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::req);
  client.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(patience).count()));
  client.set(zmq::sockopt::linger, 0);
  client.connect(address);
  int answered = 0;
  for (std::uint64_t at = 0; at < count; ++at) {
    const bytes sent = encode_request({{first_id + at}, false, status{}});
    client.send(zmq::buffer(sent.data(), sent.size()), zmq::send_flags::none);
    zmq::message_t got;
    if (!client.recv(got)) return answered;
    const auto answer = decode_reply({got.data<std::byte>(), got.size()});
    answered += answer && answer->id == request_id{first_id + at} ? 1 : 0;
  }
  return answered;
}

}  // namespace

TEST_CASE("several DEALER and REQ clients at once each get the answers to their own requests") {
  constexpr std::uint64_t requests = 300;
  test_server server(answer_status, {"tcp://127.0.0.1:0"});
  const auto endpoints = server.socket().endpoints();
  std::vector<int> answered(8);
  std::vector<std::thread> clients;
  for (std::size_t index = 0; index < answered.size(); ++index) {
    clients.emplace_back([&, index] {
      const std::string& address = endpoints[index / 2 % 2];
      const auto ask = index % 2 == 0 ? answered_over_dealer : answered_over_req;
      answered[index] = ask(address, 1000 * index, requests);
    });
  }
  for (std::thread& each : clients) each.join();
  CHECK(answered == std::vector<int>(answered.size(), requests));
}

TEST_CASE("a text command is answered in text") {
  test_server server(answer_status);
  client_socket client = connected(server.address());
  REQUIRE(client.send(as_bytes("STATUS")));
  CHECK(received(client).starts_with("STATUS version="));
  REQUIRE(client.send(as_bytes("VRAM -1")));
  CHECK(received(client).starts_with("ERR bad_value VRAM: reserve_mib"));
}

TEST_CASE("a message in an odd shape is refused and the next one is answered") {
  test_server server(test_server::echo);
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::dealer);
  client.set(zmq::sockopt::linger, 0);
  client.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(patience).count()));
  client.connect(server.address());
  const auto send = [&](std::vector<std::string> parts) {
    for (std::size_t index = 0; index < parts.size(); ++index) {
      client.send(zmq::buffer(parts[index]), index + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  };
  const auto refusal = [&] {
    zmq::message_t got;
    REQUIRE(client.recv(got));
    const auto answer = decode_reply({got.data<std::byte>(), got.size()});
    REQUIRE(answer);
    return std::get<error>(answer->body).text;
  };
  send({"a", "b"});
  CHECK(refusal() == "a message must have one part, or an empty part and then one, not 2");
  send({"a", "b", "c"});
  CHECK(refusal() == "a message must have one part, or an empty part and then one, not 3");
  send({"fine"});
  zmq::message_t got;
  REQUIRE(client.recv(got));
  CHECK(got.to_string_view() == "fine");
  CHECK(server.happened().size() == 1);
}

TEST_CASE("a client that closes is noticed, after its last frame") {
  test_server server(test_server::keep_silent);
  constexpr std::size_t clients = 100;  // descriptors are used again many times
  for (std::size_t count = 0; count < clients; ++count) {
    client_socket client = connected(server.address());
    REQUIRE(client.send(as_bytes("HELLO")));
  }
  const auto all_gone = [](const std::vector<happening>& all) {
    std::map<client_id, happening::kind> last;
    for (const happening& each : all) last[each.who] = each.what;
    return last.size() == clients &&
           std::all_of(last.begin(), last.end(), [](const auto& each) { return each.second == happening::kind::gone; });
  };
  CHECK(server.wait_until(all_gone));
}

TEST_CASE("a client that stays is not taken for one that left") {
  test_server server(test_server::echo, {"tcp://127.0.0.1:0"});
  std::vector<client_socket> staying;
  for (const std::string& address : server.socket().endpoints()) staying.push_back(connected(address));
  for (client_socket& each : staying) REQUIRE(each.send(as_bytes("HELLO")));
  for (int count = 0; count < 20; ++count) {
    client_socket leaving = connected(server.address());
    REQUIRE(leaving.send(as_bytes("BYE")));
    CHECK(received(leaving) == "BYE");
  }
  REQUIRE(server.wait_for_count(happening::kind::gone, 20));
  for (client_socket& each : staying) {
    CHECK(received(each) == "HELLO");
    REQUIRE(each.send(as_bytes("AGAIN")));
    CHECK(received(each) == "AGAIN");
  }
}

TEST_CASE("what is sent to a client that has left is dropped, and does not count as backlog") {
  test_server server(test_server::keep_silent);
  {
    client_socket client = connected(server.address());
    REQUIRE(client.send(as_bytes("HELLO")));
    REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  }
  REQUIRE(server.wait_for_count(happening::kind::gone, 1));
  const client_id who = server.happened().front().who;
  for (std::size_t count = 0; count < 2 * limits::backlog_max; ++count) {
    while (!server.socket().send(who, bytes(1))) std::this_thread::yield();  // refused for ever if drops were not counted off
  }
}

TEST_CASE("a client that reads slowly gets all that was accepted, in order, and others do not wait for it") {
  test_server server([](test_server& self, const happening& asked) {
    if (as_text(asked.frame) != "FLOOD") test_server::echo(self, asked);
  });
  client_socket slow = connected(server.address());
  client_socket quick = connected(server.address());
  REQUIRE(slow.send(as_bytes("FLOOD")));
  REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  const client_id slow_id = server.happened().front().who;

  // Until it has been refused for a while, so that every buffer on the way is full.
  std::size_t accepted = 0;
  std::string refusal;
  const auto reply_of = [](std::size_t number) { return std::to_string(number) + std::string(1000, '.'); };
  for (int refused_in_a_row = 0; refused_in_a_row < 100;) {
    const std::string next = reply_of(accepted);
    const bytes_view view = as_bytes(next);
    if (const auto taken = server.socket().send(slow_id, {view.begin(), view.end()})) {
      ++accepted;
      refused_in_a_row = 0;
    } else {
      refusal = taken.error().text;
      ++refused_in_a_row;
      std::this_thread::sleep_for(1ms);
    }
  }
  CHECK(refusal == "this client has 16384 replies unsent; it must read them first");
  CHECK(accepted > limits::backlog_max + limits::send_high_water);

  REQUIRE(quick.send(as_bytes("HELLO")));
  CHECK(received(quick) == "HELLO");

  std::size_t in_order = 0;
  while (in_order < accepted && received(slow) == reply_of(in_order)) ++in_order;
  CHECK(in_order == accepted);
}

TEST_CASE("replies from several threads to several clients all arrive, each thread's in order") {
  constexpr int threads = 4;
  constexpr int replies = 2000;
  test_server server(test_server::keep_silent);
  std::vector<client_socket> clients;
  for (int index = 0; index < threads; ++index) {
    clients.push_back(connected(server.address()));
    REQUIRE(clients.back().send(as_bytes("HELLO")));
    REQUIRE(server.wait_for_count(happening::kind::frame, index + 1));
  }
  const auto seen = server.happened();
  std::vector<std::thread> senders;
  for (int sender = 0; sender < threads; ++sender) {
    senders.emplace_back([&, sender] {
      for (int number = 0; number < replies; ++number) {
        const bytes frame{static_cast<std::byte>(sender), static_cast<std::byte>(number >> 8), static_cast<std::byte>(number)};
        for (const happening& each : seen) {
          while (!server.socket().send(each.who, frame)) std::this_thread::yield();
        }
      }
    });
  }
  for (client_socket& client : clients) {
    std::vector<int> next(threads, 0);
    bool in_order = true;
    for (int count = 0; count < threads * replies && in_order; ++count) {
      const auto frame = client.receive(patience);
      in_order = frame.has_value() && frame->size() == 3;
      if (!in_order) break;
      int& expected = next[std::to_integer<std::size_t>((*frame)[0])];
      in_order = expected == (std::to_integer<int>((*frame)[1]) << 8 | std::to_integer<int>((*frame)[2]));
      ++expected;
    }
    CHECK(in_order);
    CHECK(next == std::vector<int>(threads, replies));
  }
  for (std::thread& each : senders) each.join();
}

TEST_CASE("a frame over the limit ends its connection and no other") {
  test_server server(test_server::echo);
  client_socket other = connected(server.address());
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::dealer);
  client.set(zmq::sockopt::linger, 0);
  client.set(zmq::sockopt::reconnect_ivl, -1);
  client.connect(server.address());
  client.send(zmq::str_buffer("HELLO"), zmq::send_flags::none);
  REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  client.send(zmq::message_t(limits::message_bytes_max + 1), zmq::send_flags::none);
  CHECK(server.wait_for_count(happening::kind::gone, 1));
  REQUIRE(other.send(as_bytes("FINE")));
  CHECK(received(other) == "FINE");
}

TEST_CASE("stopping is quick though a client reads nothing, and removes the socket file") {
  test_server server(test_server::keep_silent);
  const std::string path = server.address().substr(6);
  client_socket client = connected(server.address());
  REQUIRE(client.send(as_bytes("HELLO")));
  REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  const client_id who = server.happened().front().who;
  while (server.socket().send(who, bytes(10'000))) continue;
  const auto began = std::chrono::steady_clock::now();
  server.stop();
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("replies that were accepted before a stop still arrive") {
  test_server server(test_server::keep_silent);
  client_socket client = connected(server.address());
  REQUIRE(client.send(as_bytes("HELLO")));
  REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  REQUIRE_FALSE(client.receive(0ms));
  REQUIRE(server.socket().send(server.happened().front().who, bytes(5)));
  server.stop();
  std::this_thread::sleep_for(100ms);  // the end of the connection is known before the reply is read
  CHECK(client.receive(patience).value_or(bytes{}).size() == 5);
}

TEST_CASE("while whoever takes the frames has no room nothing is read, and nothing is lost") {
  test_server server(test_server::keep_silent);
  client_socket client = connected(server.address());
  REQUIRE(client.send(as_bytes("FIRST")));
  REQUIRE(server.wait_for_count(happening::kind::frame, 1));
  server.set_room(false);
  std::this_thread::sleep_for(limits::room_interval * 3);
  REQUIRE(client.send(as_bytes("SECOND")));
  std::this_thread::sleep_for(limits::room_interval * 30);
  CHECK(server.happened().size() == 1);
  server.set_room(true);
  CHECK(server.wait_for_count(happening::kind::frame, 2));
}
