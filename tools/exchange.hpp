// tools/exchange.hpp: several questions under way over one connection, asked by one thread: each reply goes to its own request.
//
// So that an answer streams on, and the times of its tokens are noted, while whoever asked for it does other things.
#pragma once
#include "actors/clock.hpp"
#include "tools/connection.hpp"
#include <chrono>
#include <vector>

namespace ebb::tools {

class exchange {
 public:
  // `through` must outlive this, and nobody else may receive from it.
  explicit exchange(connection& through) : through_(&through) {}

  // Errors: those of connection::send.
  result<bus::request_id> begin(bus::command command);

  // Takes replies, whatever they belong to, until this request is answered for good; gives that answer and forgets the request.
  // An error reply is the error. Errors: those of connection::receive. Pre: it was begun here and not finished (asserts; so below).
  result<bus::reply> finish(const bus::request_id& id, std::chrono::milliseconds timeout);
  result<bus::reply> ask(bus::command command, std::chrono::milliseconds timeout);

  // Takes one reply. Errors: those of connection::receive.
  result<void> take(std::chrono::milliseconds timeout);

  bool answered(const bus::request_id& id) const;
  // When each token of it was taken, by the steady clock.
  const std::vector<actors::time_point>& token_times(const bus::request_id& id) const;

 private:
  struct question {
    bus::request_id id;
    std::vector<actors::time_point> token_times;
    std::optional<bus::reply> answer;
  };
  const question& at(const bus::request_id& id) const;

  connection* through_;
  std::vector<question> open_;  // a few
};

}  // namespace ebb::tools
