#include "bus/publisher_socket.hpp"
#include "bus/endpoint.hpp"
#include "bus/subscriber_socket.hpp"
#include "config/limits.hpp"
#include "tests/bus/support/test_server.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <zmq.hpp>

#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // g++ has no header of it
#endif

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::test;

bytes of(std::string_view text) {
  const bytes_view view = as_bytes(text);
  return {view.begin(), view.end()};
}

// A publisher in a folder of its own.
class published_events {
 public:
  published_events() {
    auto opened = publisher_socket::open({address()});
    if (!opened) throw std::runtime_error(opened.error().text);
    socket_ = std::move(*opened);
  }

  std::string address() const { return "ipc://" + file().string(); }
  std::filesystem::path file() const { return folder_ / "events"; }
  publisher_socket& socket() { return *socket_; }
  void stop() { socket_.reset(); }

  // A subscriber whose subscription has arrived: it has got an event already.
  subscriber_socket subscriber(const std::vector<std::string>& topics = {}) {
    auto connected = subscriber_socket::connect(address(), patience, {}, topics);
    if (!connected) throw std::runtime_error(connected.error().text);
    const std::string topic = topics.empty() ? "hello" : topics.front();
    do {
      if (auto sent = socket_->publish(of(topic), of("hello")); !sent) throw std::runtime_error(sent.error().text);
    } while (!connected->receive(5ms));
    while (connected->receive(50ms)) {
    }
    return std::move(*connected);
  }

 private:
  temporary_folder folder_;
  std::unique_ptr<publisher_socket> socket_;
};

std::string next_of(subscriber_socket& from) {
  const auto got = from.receive(patience);
  return got ? std::string(as_text(got->topic)) + ":" + std::string(as_text(got->frame)) : "error: " + got.error().text;
}

// What the process holds. The address sanitizer keeps what is freed for a while, so there only what is in use is counted.
double memory_mib() {
#if defined(__SANITIZE_ADDRESS__)
  return static_cast<double>(__sanitizer_get_current_allocated_bytes()) / (1 << 20);
#else
  std::ifstream status("/proc/self/statm");
  double pages = 0;
  status >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
#endif
}

// A SUB that subscribes to everything and never reads a single event.
class deaf_subscriber {
 public:
  explicit deaf_subscriber(const std::string& address) {
    socket_.set(zmq::sockopt::rcvhwm, 1);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::subscribe, "");
    socket_.connect(address);
  }
  // Waits for an event without taking it.
  bool reached() {
    zmq_pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
    return zmq_poll(&item, 1, 20) == 1;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::sub};
};

}  // namespace

TEST_CASE("a subscriber gets the events in order, topic and frame") {
  published_events events;
  auto subscriber = events.subscriber();
  for (int count = 0; count < 500; ++count) REQUIRE(events.socket().publish(of("resized"), of(std::to_string(count))));
  for (int count = 0; count < 500; ++count) REQUIRE(next_of(subscriber) == "resized:" + std::to_string(count));
}

TEST_CASE("a subscriber gets the topics that it asked for, and no others") {
  published_events events;
  auto subscriber = events.subscriber({"lease"});
  REQUIRE(events.socket().publish(of("resized"), of("1")));
  REQUIRE(events.socket().publish(of("lease_granted"), of("2")));
  REQUIRE(events.socket().publish(of("leas"), of("3")));
  REQUIRE(events.socket().publish(of("lease_ended"), of("4")));
  CHECK(next_of(subscriber) == "lease_granted:2");
  CHECK(next_of(subscriber) == "lease_ended:4");
  CHECK_FALSE(subscriber.receive(20ms).has_value());
}

TEST_CASE("events of several threads all arrive, those of each thread in their order") {
  published_events events;
  auto subscriber = events.subscriber();
  constexpr int threads = 4, each_publishes = 200;  // all together below the high-water mark
  std::vector<std::thread> publishers;
  for (int index = 0; index < threads; ++index) {
    publishers.emplace_back([&, index] {
      for (int count = 0; count < each_publishes; ++count) {
        static_cast<void>(events.socket().publish(of(std::to_string(index)), of(std::to_string(count))));
      }
    });
  }
  for (std::thread& each : publishers) each.join();
  std::vector<int> seen(threads);
  for (int count = 0; count < threads * each_publishes; ++count) {
    const auto got = subscriber.receive(patience);
    REQUIRE(got);
    int& next = seen.at(static_cast<std::size_t>(std::stoi(std::string(as_text(got->topic)))));
    REQUIRE(as_text(got->frame) == std::to_string(next));
    ++next;
  }
}

TEST_CASE("a subscriber that reads nothing slows nobody, costs bounded memory, and takes no event from another") {
  published_events events;
  deaf_subscriber deaf(events.address());
  auto reader = events.subscriber();
  for (int tries = 0; !deaf.reached(); ++tries) {
    REQUIRE(tries < 1000);
    REQUIRE(events.socket().publish(of("hello"), of("hello")));
  }
  while (reader.receive(50ms)) {
  }

  constexpr std::size_t events_in_all = 16'000, batch = 100;  // 1000 MiB; the reader is never a batch behind
  const double before_mib = memory_mib();
  std::vector<double> took_us;
  for (std::size_t count = 0; count < events_in_all; ++count) {
    bytes frame(limits::event_bytes_max);
    frame[0] = static_cast<std::byte>(count);
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(events.socket().publish(of("resized"), std::move(frame)));
    took_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count());
    if ((count + 1) % batch != 0) continue;
    for (std::size_t got = count + 1 - batch; got <= count; ++got) {
      const auto next = reader.receive(patience);
      REQUIRE(next);
      REQUIRE(next->frame.at(0) == static_cast<std::byte>(got));
    }
  }
  const double grown_mib = memory_mib() - before_mib;
  std::sort(took_us.begin(), took_us.end());
  INFO("publish took " << took_us[took_us.size() / 2] << " us in the median, " << took_us.back() << " us at most; memory grew by "
                       << grown_mib << " MiB");
  CHECK(took_us[took_us.size() * 99 / 100] < 1000);
  // The high-water mark of the one that does not read, as much again on its way, and what is read.
  CHECK(grown_mib < 256);
}

TEST_CASE("publishing to nobody is no error and costs no memory") {
  published_events events;
  const double before_mib = memory_mib();
  for (int count = 0; count < 8'000; ++count) {
    while (!events.socket().publish(of("resized"), bytes(limits::event_bytes_max))) std::this_thread::yield();
  }
  CHECK(memory_mib() - before_mib < 200);
}

TEST_CASE("an event over its limit is refused before it is sent, one at the limit arrives") {
  published_events events;
  auto subscriber = events.subscriber();
  CHECK(events.socket().publish(of("resized"), bytes(limits::event_bytes_max + 1)).error().text ==
        "the frame of an event has 65537 bytes; allowed: up to 65536");
  CHECK(events.socket().publish(bytes(limits::event_topic_bytes_max + 1), {}).error().text ==
        "the topic of an event has 65 bytes; allowed: up to 64");
  REQUIRE(events.socket().publish(bytes(limits::event_topic_bytes_max), bytes(limits::event_bytes_max)));
  const auto got = subscriber.receive(patience);
  REQUIRE(got);
  CHECK(got->topic.size() == limits::event_topic_bytes_max);
  CHECK(got->frame.size() == limits::event_bytes_max);
}

TEST_CASE("the file of the events is its owner's alone, and is removed in the end") {
  published_events events;
  struct stat found {};
  REQUIRE(::lstat(events.file().c_str(), &found) == 0);
  CHECK((found.st_mode & 07777) == 0600);
  const auto second = publisher_socket::open({events.address()});
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().text ==
        "socket " + events.file().string() + ": another daemon answers there; stop it, or give this one another [bus] events");
  events.stop();
  CHECK_FALSE(std::filesystem::exists(events.file()));
}

TEST_CASE("a subscriber hears of a missing daemon, of silence, and of a daemon that has left, at once") {
  const temporary_folder folder;
  const std::string nowhere = "ipc://" + (folder / "events").string();
  CHECK(subscriber_socket::connect(nowhere, patience).error().text ==
        "no daemon at " + nowhere + "; start ebbd, or pass --connect with its address");

  published_events events;
  auto subscriber = events.subscriber();
  CHECK(subscriber.receive(20ms).error().text == "the daemon at " + events.address() + " sent nothing within 20 ms");
  events.stop();
  CHECK(next_of(subscriber) == "error: the daemon at " + events.address() + " has gone; start ebbd again");
}

TEST_CASE("events lie beside the commands") {
  const std::string commands = default_endpoint();
  CHECK(default_events_endpoint() == commands.substr(0, commands.rfind('/')) + "/events");
}
