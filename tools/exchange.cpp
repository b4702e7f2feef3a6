#include "tools/exchange.hpp"
#include "config/assert.hpp"
#include <algorithm>

namespace ebb::tools {

result<bus::request_id> exchange::begin(bus::command command) {
  const bus::request asked{.id = fresh_id(), .text = false, .command = std::move(command)};
  if (auto sent = through_->send(asked); !sent) return fail(sent.error());
  open_.push_back({asked.id, {}, std::nullopt});
  return asked.id;
}

result<bus::reply> exchange::finish(const bus::request_id& id, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!answered(id)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (auto taken = take(std::max(left, std::chrono::milliseconds{0})); !taken) return fail(taken.error());
  }
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const question& each) { return each.id == id; });
  bus::reply answer = *std::move(found->answer);
  open_.erase(found);
  if (const auto* why = std::get_if<error>(&answer.body)) return fail(*why);
  return answer;
}

result<bus::reply> exchange::ask(bus::command command, std::chrono::milliseconds timeout) {
  const auto id = begin(std::move(command));
  if (!id) return fail(id.error());
  return finish(*id, timeout);
}

result<void> exchange::take(std::chrono::milliseconds timeout) {
  auto reply = through_->receive(timeout);
  if (!reply) return fail(reply.error());
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const question& each) { return each.id == reply->id; });
  if (found == open_.end()) return {};  // of somebody who has stopped waiting
  if (reply->last())
    found->answer = std::move(*reply);
  else
    found->token_times.push_back(std::chrono::steady_clock::now());
  return {};
}

bool exchange::answered(const bus::request_id& id) const { return at(id).answer.has_value(); }

const std::vector<actors::time_point>& exchange::token_times(const bus::request_id& id) const { return at(id).token_times; }

const exchange::question& exchange::at(const bus::request_id& id) const {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const question& each) { return each.id == id; });
  EBB_ASSERT(found != open_.end());
  return *found;
}

}  // namespace ebb::tools
