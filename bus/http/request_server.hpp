// bus/http/request_server.hpp: answers the requests that the connection loop has gathered: cpp-httplib writes HTTP, the routes answer.
//
// Each worker thread has one of its own, since cpp-httplib gives its handlers no context.
#pragma once
#include "bus/http/connection.hpp"
#include "bus/http/guard.hpp"
#include "bus/http/routes.hpp"
#include <memory>

namespace ebb::bus::http {

class request_server {
 public:
  // Both must outlive it, and do not change while it serves.
  request_server(const routes& all, const guard& rules);
  ~request_server();

  enum class after : std::uint8_t { keep, drain, close };
  // Pre: the head of a request is there, and its body if guard::wants_body(). What becomes of the connection: `drain` where the client may still be sending what nobody reads.
  after serve(connection& client);

 private:
  class processor;
  std::unique_ptr<processor> processor_;
};

}  // namespace ebb::bus::http
