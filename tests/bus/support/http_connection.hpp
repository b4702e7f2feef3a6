// tests/bus/support/http_connection.hpp: a client that knows nothing of Ebb: it sends bytes to a port and shows what comes back.
#pragma once
#include "bus/file_descriptor.hpp"
#include <arpa/inet.h>
#include <chrono>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>

namespace ebb::bus::test {

struct http_response {
  int status = 0;  // 0: the server ended the connection without one
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  nlohmann::json json() const { return nlohmann::json::parse(body); }
  std::string error_code() const { return json().at("error").at("code").get<std::string>(); }
  std::string error_message() const { return json().at("error").at("message").get<std::string>(); }
};

class http_connection {
 public:
  // `url` as the server names it: "http://127.0.0.1:1234".
  explicit http_connection(const std::string& url) : host_(url.substr(url.find("//") + 2)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(host_.substr(host_.find(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) throw std::runtime_error("cannot connect to " + url);
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  void send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t taken = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (taken <= 0) return;  // the server has ended the connection; what it said first can still be read
      sent += static_cast<std::size_t>(taken);
    }
  }

  // `headers` are whole lines.
  void send_request(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {}) {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: " + host_ + "\r\n" + headers;
    if (!body.empty()) text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    send(text + "\r\n" + body);
  }
  http_response ask(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {}) {
    send_request(method, path, body, headers);
    return receive(method != "HEAD");
  }

  // The next whole response. Status 0: the connection ended, or nothing came in time.
  http_response receive(bool with_body = true) {
    http_response out = receive_head();
    if (out.status == 0 || !with_body || out.status == 204) return out;
    if (out.headers.contains("transfer-encoding")) {
      for (;;) {
        const std::string chunk = receive_chunk();
        if (chunk.empty()) return out;
        out.body += chunk;
      }
    }
    const std::size_t length = out.headers.contains("content-length") ? std::stoul(out.headers["content-length"]) : 0;
    while (unread_.size() < length && read_more()) {
    }
    out.body = unread_.substr(0, length);
    unread_.erase(0, length);
    return out;
  }

  http_response receive_head() {
    http_response out;
    std::size_t end = 0;
    while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return out;
    }
    const std::string head = unread_.substr(0, end + 2);
    unread_.erase(0, end + 4);
    out.status = std::stoi(head.substr(head.find(' ') + 1));
    for (std::size_t at = head.find("\r\n") + 2; at < head.size(); at = head.find("\r\n", at) + 2) {
      const std::string line = head.substr(at, head.find("\r\n", at) - at);
      std::string name = line.substr(0, line.find(':'));
      for (char& each : name) each = static_cast<char>(std::tolower(each));
      out.headers[name] = line.substr(std::min(line.size(), line.find(':') + 2));
    }
    return out;
  }

  // Of a body in chunks; empty: the last, or the connection has ended.
  std::string receive_chunk() {
    std::size_t line = 0;
    while ((line = unread_.find("\r\n")) == std::string::npos) {
      if (!read_more()) return {};
    }
    const std::size_t size = std::stoul(unread_, nullptr, 16);
    while (unread_.size() < line + 2 + size + 2) {
      if (!read_more()) return {};
    }
    std::string chunk = unread_.substr(line + 2, size);
    unread_.erase(0, line + 2 + size + 2);
    return chunk;
  }

  // Whether the server ends the connection, with what it says before in `unread`.
  bool ends() {
    while (read_more()) {
    }
    return ended_;
  }
  const std::string& unread() const { return unread_; }

  void give_up_after(std::chrono::milliseconds patience) { patience_ = patience; }
  void shut_down_writing() { ::shutdown(socket_.get(), SHUT_WR); }
  int socket() const { return socket_.get(); }

 private:
  bool read_more() {
    pollfd ready{socket_.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(patience_.count())) <= 0) return false;
    char buffer[16384];
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    unread_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  std::string host_;
  file_descriptor socket_;
  std::string unread_;
  bool ended_ = false;
  std::chrono::milliseconds patience_{60'000};
};

}  // namespace ebb::bus::test
