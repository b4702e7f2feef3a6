// tests/sim/support/client_book.hpp: what the clients have asked, and whether each was answered as promised.
#pragma once
#include "finding.hpp"
#include "sim_model.hpp"
#include "support/cast.hpp"
#include <map>
#include <optional>
#include <string>

namespace ebb::sim {

using actors::test::said;

class client_book {
 public:
  struct asked {
    std::uint32_t times = 0;
    bool left = false;                 // its client left after it was sent
    std::string prompt;                // of a generate
    std::uint32_t answers = 0;         // last replies
    bus::command command;
  };
  using key = std::pair<bus::client_id, bus::request_id>;

  void sent(const bus::client_id& client, const bus::request& what) {
    asked& of = requests_[{client, what.id}];
    ++of.times;
    of.command = what.command;
    if (const auto* wanted = std::get_if<bus::generate>(&what.command)) of.prompt = wanted->prompt;
  }
  void left(const bus::client_id& client) {
    for (auto& [whose, of] : requests_) of.left = of.left || whose.first == client;
  }

  // A reply has come out. Gives the request that it ends, if it is a last one.
  const asked* came(const said& reply) {
    const auto found = requests_.find({reply.to, reply.what.id});
    hold(found != requests_.end(), "a reply to nobody's request");
    asked& of = found->second;
    if (!reply.what.last()) {
      hold(of.answers < of.times, "a token behind the last reply");  // after `busy` the same id may be asked again
      return nullptr;
    }
    ++of.answers;
    hold(of.answers <= of.times, "more last replies than requests");
    if (const auto* done = std::get_if<bus::done>(&reply.what.body)) check_answer(of, *done);
    return &of;
  }

  // Once nothing moves any more.
  void check_all_answered() const {
    for (const auto& [whose, of] : requests_) {
      const bool enough = whose.second.empty() ? of.answers == of.times : of.answers > 0;  // text has no id to be recognised by
      hold(of.left || enough, "no last reply to request " + to_string(whose.second) + " of " + whose.first.routing_id + ", command " +
                                          std::to_string(of.command.index()));
    }
  }

  std::uint64_t answers_compared() const noexcept { return answers_compared_; }
  std::uint64_t requests() const noexcept { return requests_.size(); }

 private:
  // Also the part of an answer that was cancelled.
  void check_answer(const asked& of, const bus::done& answer) {
    const auto n_tokens = static_cast<std::uint32_t>(answer.generated_tokens);
    if (n_tokens == 0) return;
    hold(answer.hash == hash_of(of.prompt, n_tokens), "another hash than undisturbed: prompt `" + of.prompt + "`, " + std::to_string(n_tokens) + " tokens, finish " + answer.finish);
    ++answers_compared_;
  }

  std::map<key, asked> requests_;
  std::uint64_t answers_compared_ = 0;
};

}  // namespace ebb::sim
