#include "actors/request_book.hpp"
#include "config/assert.hpp"

namespace ebb::actors {

namespace {

bool says_try_again(const bus::reply& what) {
  const auto* why = std::get_if<error>(&what.body);
  return why && (why->code == errc::short_of || why->code == errc::busy || why->code == errc::not_loaded || why->code == errc::timed_out);
}

}  // namespace

request_book::verdict request_book::begin(const bus::client_id& client, const bus::request_id& id, std::uint64_t what) {
  if (!id.empty()) {
    const auto found = entries_.find({client, id});
    if (found != entries_.end() && found->second.what != what) return verdict::another;
    if (found != entries_.end()) return found->second.answer ? verdict::answered : verdict::in_progress;
  }
  if (open_ >= open_max_) return verdict::full;
  ++open_;
  if (id.empty()) ++open_text_[client];
  else entries_.emplace(key{client, id}, entry{what, {}, {}});
  return verdict::fresh;
}

const bus::reply& request_book::answer(const bus::client_id& client, const bus::request_id& id) const {
  const entry& found = entries_.at({client, id});
  EBB_ASSERT(found.answer.has_value());
  return *found.answer;
}

void request_book::finish(const bus::client_id& client, const bus::reply& last, bool remember) {
  if (last.id.empty()) {
    const auto found = open_text_.find(client);
    if (found == open_text_.end()) return;  // the client has left
    if (--found->second == 0) open_text_.erase(found);
    --open_;
    return;
  }
  const auto found = entries_.find({client, last.id});
  if (found == entries_.end()) return;  // the client has left
  EBB_ASSERT(!found->second.answer.has_value());
  --open_;
  if (!remember || says_try_again(last)) {
    entries_.erase(found);
    return;
  }
  found->second.answer = last;
  found->second.remembered = answered_.insert(answered_.end(), found->first);
  if (answered_.size() > remembered_max_) {
    entries_.erase(answered_.front());
    answered_.pop_front();
  }
}

void request_book::forget(const bus::client_id& client) {
  if (const auto found = open_text_.find(client); found != open_text_.end()) {
    open_ -= found->second;
    open_text_.erase(found);
  }
  auto next = entries_.lower_bound(key{client, bus::request_id{}});
  while (next != entries_.end() && next->first.client == client) {
    if (next->second.answer) answered_.erase(next->second.remembered);
    else --open_;
    next = entries_.erase(next);
  }
}

}  // namespace ebb::actors
