// bus/http/timed_stream.hpp: a connection as cpp-httplib reads and writes it, with an end to each wait.
//
// What it reads is a head that is there already: the socket is read by the connection loop alone. What is written is gathered until flush(),
// so that a short response is one packet.
// Only the thread that works for the request uses it.
#pragma once
#include <httplib.h>
#include <string>

namespace ebb::bus::http {

class timed_stream final : public httplib::Stream {
 public:
  // Both must outlive this.
  timed_stream(int socket, const std::string& head, const std::string& peer_address) : socket_(socket), head_(head), peer_address_(peer_address) {}
  timed_stream(const timed_stream&) = delete;
  timed_stream& operator=(const timed_stream&) = delete;

  // False: the client does not take it, or has left; nothing more is sent.
  bool flush();
  bool broken() const noexcept { return broken_; }

  bool is_readable() const override { return !broken_; }
  bool is_writable() const override { return !broken_; }
  ssize_t read(char* into, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  // Not the real one: cpp-httplib as Debian builds it refuses numbers from 1024 up, which it would wait for by select().
  socket_t socket() const override { return 0; }

 private:
  const int socket_;
  const std::string& head_;
  std::size_t taken_ = 0;  // of it
  const std::string& peer_address_;
  std::string unsent_;
  bool broken_ = false;
};

}  // namespace ebb::bus::http
