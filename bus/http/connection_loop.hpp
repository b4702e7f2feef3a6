// bus/http/connection_loop.hpp: one thread that holds every connection nobody works for: new ones, those at rest between two
// requests, those whose request is still arriving.
//
// cpp-httplib's own server keeps a thread for as long as a connection lives: so many clients at rest, or so many that send a byte a
// second, and nobody else is served. Here a thread is a request's that has come whole, with its body; 1000 connections at rest cost descriptors
// and memory, bodies that arrive slowly their bytes, and every phase has a deadline. Measured with 1000 at rest: tests/bus/http/server_test.cpp.
//
// It also sees the client of a request under way leave, and tells the one who works for it.
#pragma once
#include "bus/file_descriptor.hpp"
#include "bus/http/connection.hpp"
#include "bus/wake_event.hpp"
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace ebb::bus::http {

class connection_loop {
 public:
  struct handlers {
    // Whether the body of this request is worth waiting for; else it is refused, whatever the body is. Must not block.
    std::function<bool(const request_head&)> wants_body;
    // A request is there; false: nobody is free. On the loop's thread; must not block.
    std::function<bool(connection&)> begin;
  };

  // `listening` must not block.
  connection_loop(file_descriptor listening, handlers handle);
  ~connection_loop() { stop(); }
  connection_loop(const connection_loop&) = delete;
  connection_loop& operator=(const connection_loop&) = delete;

  void start();

  enum class after : std::uint8_t { keep, drain, close };
  // The work for it is done. From any thread.
  void give_back(connection& client, after what);

  // Takes no more connections, and tells all clients of requests under way that they count as gone.
  void close_doors();
  // Ends the thread and all connections. Pre: none is worked for.
  void stop();
  // Nothing is read or written by whoever still works for one.
  void cut_off();

  std::size_t connection_count() const;

 private:
  void run() noexcept;
  void take_given_back();
  void accept_all();
  void adopt(file_descriptor socket, std::string address);
  void look_at(int socket, std::uint32_t events);
  void read_request(connection& client);
  void take_head(connection& client, std::size_t bytes);
  void read_body(connection& client);
  void take_body(connection& client);
  bool charge_body(connection& client);
  void let_body_go(connection& client);
  void trim();
  void read_away(connection& client);
  void hand_over(connection& client);
  void refuse(connection& client, const problem& why);
  void to_phase(connection& client, phase next);
  void watch(const connection& client, std::uint32_t events, bool first);
  void end(connection& client);
  void end_overdue();
  void make_room();

  file_descriptor listening_;
  handlers handle_;
  file_descriptor epoll_;
  wake_event wake_;
  mutable std::mutex mutex_;  // guards the members below where they are shared: the map's shape, given_back_, the flags
  std::unordered_map<int, std::unique_ptr<connection>> connections_;  // by socket; changed by the loop's thread alone
  std::vector<std::pair<connection*, after>> given_back_;
  std::size_t bodies_bytes_ = 0;  // charged to connections
  bool large_body_went_ = false;  // since the last trim
  bool closing_ = false;
  bool stopping_ = false;
  bool accepts_ = true;
  std::thread thread_;
};

}  // namespace ebb::bus::http
