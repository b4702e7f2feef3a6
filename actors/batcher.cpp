#include "actors/batcher.hpp"
#include "config/assert.hpp"
#include <algorithm>

namespace ebb::actors {

batcher::batcher(std::uint32_t places, prompt_chunk chunk, std::uint32_t windows_max)
    : chunk_(chunk), windows_max_(windows_max), of_place_(places) {
  EBB_ASSERT(places > 0);
  EBB_ASSERT(windows_max > 0);
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
    EBB_ASSERT(found->second.windows == 0);
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

bool batcher::under_way(session_id session) const {
  const auto found = running_.find(session);
  return found != running_.end() && found->second.windows > 0;
}

void batcher::give_up_windows() noexcept {
  for (auto& [id, each] : running_) each.windows = 0;
}

window batcher::next_window(std::uint32_t repeat_max) {
  window next;
  const std::size_t share = sessions_a_window();
  add_decode_rows(next, share);
  const std::size_t decoding = next.rows.size();
  add_prompt_rows(next, share - decoding);
  const bool nobody_can_join = waiting_.empty() || !has_room();
  if (next.rows.size() == decoding && nobody_can_join) next.repeat = repeat_max;
  if (!next.rows.empty()) next.number = ++numbers_;
  return next;
}

// visit(session, its rows), of the sessions that still run. Rows of one session lie together.
template <class Visit>
void batcher::each_session_of(const window& of, Visit visit) {
  for (std::size_t first = 0, end; first < of.rows.size(); first = end) {
    const std::uint32_t place = of.rows[first].session;
    for (end = first + 1; end < of.rows.size() && of.rows[end].session == place;) ++end;
    if (of_place_[place]) visit(running_.at(*of_place_[place]), static_cast<std::uint32_t>(end - first));
  }
}

void batcher::goes_on(const window& following) {
  each_session_of(following, [](session_entry& of, std::uint32_t n_rows) {
    of.position += n_rows;
    ++of.windows;
  });
}

void batcher::not_run(const window& begun) {
  each_session_of(begun, [](session_entry& of, std::uint32_t n_rows) {
    of.position -= n_rows;
    --of.windows;
  });
}

// As even as can be, so that every device has as much to do. Those that were left over find room in the window that comes next, since all
// windows together have room for all sessions.
std::size_t batcher::sessions_a_window() const noexcept { return (running_.size() + windows_max_ - 1) / windows_max_; }

void batcher::add_decode_rows(window& next, std::size_t sessions_max) {
  for (const auto& owner : of_place_) {
    if (next.rows.size() == sessions_max) return;
    if (!owner) continue;
    session_entry& of = running_.at(*owner);
    if (!of.decodes() || of.windows > 0) continue;
    next.sampled.push_back({static_cast<std::uint32_t>(next.rows.size()), *owner});
    next.rows.push_back({of.place, of.position++});
    next.tokens.push_back(*of.last);
    ++of.windows;
  }
}

// A row in a prompt's window delays every session that decodes, whichever window that is in.
std::size_t batcher::chunk_rows() const {
  const auto decodes = [](const auto& each) { return each.second.decodes(); };
  if (std::any_of(running_.begin(), running_.end(), decodes)) return chunk_.shared;
  const auto n_prompts = std::count_if(running_.begin(), running_.end(), [](const auto& each) { return each.second.reads_prompt(); });
  return std::max<std::size_t>(chunk_.shared, chunk_.alone / std::max<std::size_t>(1, static_cast<std::size_t>(n_prompts)));
}

void batcher::add_prompt_rows(window& next, std::size_t sessions_max) {
  const std::size_t chunk = chunk_rows();
  std::vector<session_id> prompts = prompts_to_read();
  prompts.resize(std::min(prompts.size(), sessions_max));
  for (const session_id session : prompts) {
    if (next.rows.size() < limits::window_rows_max) add_chunk(next, session, chunk);
  }
}

// Those that no window under way reads come first, so that none of them waits for the end of another.
std::vector<session_id> batcher::prompts_to_read() const {
  std::vector<session_id> found;
  for (const auto& owner : of_place_) {
    if (owner && running_.at(*owner).reads_prompt()) found.push_back(*owner);
  }
  std::stable_partition(found.begin(), found.end(), [this](session_id each) { return running_.at(each).windows == 0; });
  return found;
}

void batcher::add_chunk(window& next, session_id session, std::size_t chunk) {
  session_entry& of = running_.at(session);
  const std::vector<token_id>& prompt = of.order->prompt;
  const std::size_t left = prompt.size() - of.position;
  const std::size_t room = limits::window_rows_max - next.rows.size();
  const auto n_rows = static_cast<std::uint32_t>(std::min({left, room, chunk}));
  for (std::uint32_t i = 0; i < n_rows; ++i) {
    next.rows.push_back({of.place, of.position + i});
    next.tokens.push_back(prompt[of.position + i]);
  }
  if (n_rows == left) next.sampled.push_back({static_cast<std::uint32_t>(next.rows.size() - 1), session});
  of.position += n_rows;
  ++of.windows;
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
  each_session_of(done, [this](session_entry& of, std::uint32_t n_rows) {
    --of.windows;
    if (!of.last) prompt_tokens_ += n_rows;  // as yet: what is picked below belongs to the rows of the next window
  });
  std::vector<session_token> tokens;
  tokens.reserve(answer.picked.size());
  for (const picked_token& picked : answer.picked) {
    session_entry& of = running_.at(picked.session);
    if (of.generated == 0) {
      of.first_token = now;
    } else {
      const double gap_ms = milliseconds_between(of.last_token, now);
      gaps_.note(gap_ms);
      of.gap_ms_max = std::max(of.gap_ms_max, gap_ms);
    }
    of.last_token = now;
    of.last = picked.token;
    tokens.push_back({picked.session, of.generated++, picked.token, picked.text, picked.logprob, picked.top});
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
