// bus/http/answer.hpp: one request for answers under way: each choice is a generate of the bus, and this gathers or streams them.
#pragma once
#include "bus/http/answer_request.hpp"
#include "bus/http/answer_shapes.hpp"
#include "bus/http/call.hpp"
#include "bus/http/context.hpp"
#include <map>
#include <optional>

namespace ebb::bus::http {

class answer {
 public:
  // Asks the daemon. It is cancelled when this is destroyed.
  answer(context& of, answer_request wanted, std::shared_ptr<peer> whose, room::places place);

  // Waits for all of it.
  response whole();

  // Waits a moment for the first token, so that what is refused at once is refused by a status; then the rest is a stream.
  static response streamed(const std::shared_ptr<answer>& self);

 private:
  struct choice {
    finished_choice so_far;
    bool ended = false;
    std::size_t offset = 0;  // of the text of the next token
  };

  // What came for which choice; an error ends all of them.
  struct news {
    std::size_t index = 0;
    std::variant<token, done, problem> what;
  };
  // Nothing when the time is over.
  std::optional<news> next(std::chrono::steady_clock::duration patience);
  std::vector<seen_token> seen(const token& what);
  std::string own_text(const token& what);
  token_usage usage() const;

  void write_all(body_writer& out);
  bool write_news(body_writer& out, const news& what);  // false: that was the last
  bool write_token(body_writer& out, std::size_t index, const token& what);
  bool write_data(body_writer& out, const answer_shapes::json& what);

  context& of_;
  const answer_request wanted_;
  room::places place_;
  answer_shapes shapes_;
  std::vector<choice> choices_;
  std::optional<news> first_;
  std::map<token_id, std::string> texts_;  // of tokens that were not among the likeliest
  std::shared_ptr<peer> peer_;
  call daemon_;
};

}  // namespace ebb::bus::http
