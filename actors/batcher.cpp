#include "actors/batcher.hpp"
#include "config/assert.hpp"
#include <algorithm>

namespace ebb::actors {

batcher::batcher(std::uint32_t places, prompt_chunk chunk) : chunk_(chunk), of_place_(places) {
  EBB_ASSERT(places > 0);
  EBB_ASSERT(chunk.shared > 0);
  EBB_ASSERT(chunk.alone >= chunk.shared);
  EBB_ASSERT(chunk.alone <= limits::window_rows_max);
}

void batcher::submit(session_id id, std::shared_ptr<const session_order> order, time_point now) {
  EBB_ASSERT(!order->prompt.empty());
  session_entry fresh;
  fresh.order = std::move(order);
  fresh.submitted = now;
  waiting_.emplace_back(id, std::move(fresh));
}

std::optional<session_opening> batcher::admit() {
  if (waiting_.empty()) return std::nullopt;
  const auto free_place = std::find(of_place_.begin(), of_place_.end(), std::nullopt);
  if (free_place == of_place_.end()) return std::nullopt;
  auto [id, next] = std::move(waiting_.front());
  waiting_.pop_front();
  next.place = static_cast<std::uint32_t>(free_place - of_place_.begin());
  *free_place = id;
  session_opening opening{id, next.place, next.order};
  const bool fresh = running_.emplace(id, std::move(next)).second;
  EBB_ASSERT(fresh);
  return opening;
}

void batcher::hold(session_id id) { running_.at(id).held = true; }

batcher::removed batcher::remove(session_id id) {
  if (const auto found = running_.find(id); found != running_.end()) {
    const std::uint32_t place = found->second.place;
    of_place_[place].reset();
    running_.erase(found);
    return {true, place};
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [id](const auto& waits) { return waits.first == id; });
  if (found == waiting_.end()) return {};
  waiting_.erase(found);
  return {true, std::nullopt};
}

bus::done batcher::summary(session_id id, model::finish reason, std::string logits_hash, time_point now) const {
  const session_entry& ended = running_.at(id);
  bus::done said;
  said.finish = std::string(model::to_string(reason));
  said.prompt_tokens = ended.order->prompt.size();
  said.generated_tokens = ended.generated;
  const bool any = ended.generated > 0;
  said.prompt_ms = milliseconds_between(ended.submitted, any ? ended.first_token : now);
  said.decode_ms = any ? milliseconds_between(ended.first_token, ended.last_token) : 0;
  if (said.decode_ms > 0) said.tokens_per_s = static_cast<double>(ended.generated - 1) / said.decode_ms * 1000;
  if (ended.picks > 0) said.hit_rate = static_cast<double>(ended.hits) / static_cast<double>(ended.picks);
  said.gap_ms_max = ended.gap_ms_max;
  said.hash = std::move(logits_hash);
  return said;
}

window batcher::next_window(std::uint32_t repeat_max) {
  window next;
  add_decode_rows(next);
  const std::size_t decoding = next.rows.size();
  add_prompt_rows(next);
  const bool nobody_can_join = waiting_.empty() || !has_room();
  if (next.rows.size() == decoding && nobody_can_join) next.repeat = repeat_max;
  if (!next.rows.empty()) next.number = ++numbers_;
  return next;
}

void batcher::add_decode_rows(window& next) const {
  for (const auto& owner : of_place_) {
    if (!owner) continue;
    const session_entry& of = running_.at(*owner);
    if (!of.decodes()) continue;
    next.sampled.push_back({static_cast<std::uint32_t>(next.rows.size()), *owner});
    next.rows.push_back({of.place, of.position});
    next.tokens.push_back(*of.last);
  }
}

std::size_t batcher::chunk_rows(bool any_decodes) const {
  if (any_decodes) return chunk_.shared;
  const auto n_prompts = std::count_if(running_.begin(), running_.end(), [](const auto& each) { return each.second.reads_prompt(); });
  return std::max<std::size_t>(chunk_.shared, chunk_.alone / std::max<std::size_t>(1, static_cast<std::size_t>(n_prompts)));
}

void batcher::add_prompt_rows(window& next) const {
  const std::size_t chunk = chunk_rows(!next.rows.empty());
  for (const auto& owner : of_place_) {
    if (!owner) continue;
    const session_entry& of = running_.at(*owner);
    if (!of.reads_prompt()) continue;
    const std::vector<token_id>& prompt = of.order->prompt;
    const std::size_t left = prompt.size() - of.position;
    const std::size_t room = limits::window_rows_max - next.rows.size();
    const auto n_rows = static_cast<std::uint32_t>(std::min({left, room, chunk}));
    for (std::uint32_t i = 0; i < n_rows; ++i) {
      next.rows.push_back({of.place, of.position + i});
      next.tokens.push_back(prompt[of.position + i]);
    }
    if (n_rows == left) next.sampled.push_back({static_cast<std::uint32_t>(next.rows.size() - 1), *owner});
  }
}

void batcher::count_hits(const window& done, const window_result& answer) {
  EBB_ASSERT(done.rows.size() == answer.hits.size());
  for (std::size_t row = 0; row < done.rows.size(); ++row) {
    const auto& owner = of_place_[done.rows[row].session];
    if (!owner) continue;
    session_entry& of = running_.at(*owner);
    of.hits += answer.hits[row];
    of.picks += answer.picks_per_row;
  }
}

std::vector<session_token> batcher::complete(const window& done, const window_result& answer, time_point now) {
  EBB_ASSERT(done.sampled.size() == answer.picked.size());
  for (const auto& [place, position] : done.rows) {
    const auto& owner = of_place_[place];
    if (owner) running_.at(*owner).position = position + 1;
  }
  std::vector<session_token> tokens;
  tokens.reserve(answer.picked.size());
  for (const picked_token& picked : answer.picked) {
    session_entry& of = running_.at(picked.session);
    if (of.generated == 0) of.first_token = now;
    else of.gap_ms_max = std::max(of.gap_ms_max, milliseconds_between(of.last_token, now));
    of.last_token = now;
    of.last = picked.token;
    tokens.push_back({picked.session, of.generated++, picked.token, picked.text});
  }
  tokens_ += tokens.size();
  ++windows_;
  return tokens;
}

std::vector<session_id> batcher::sessions() const {
  std::vector<session_id> all;
  for (const auto& owner : of_place_) {
    if (owner) all.push_back(*owner);
  }
  for (const auto& waits : waiting_) all.push_back(waits.first);
  return all;
}

window following(const window& done, const window_result& answer) {
  EBB_ASSERT(done.repeat > 0);
  EBB_ASSERT(done.rows.size() == answer.picked.size());
  window next;
  next.number = done.number;
  next.repeat = done.repeat - 1;
  next.rows = done.rows;
  next.sampled = done.sampled;
  next.tokens.reserve(done.rows.size());
  for (std::size_t i = 0; i < done.rows.size(); ++i) {
    ++next.rows[i].position;
    next.tokens.push_back(answer.picked[i].token);
  }
  return next;
}

}  // namespace ebb::actors
