#include "model/byte_pairs.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <functional>
#include <limits>

namespace ebb::model {
namespace {

constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t no_link = std::numeric_limits<std::uint32_t>::max();

std::uint64_t pack(std::uint32_t upper, std::uint32_t lower) noexcept { return std::uint64_t{upper} << 32 | lower; }
std::uint64_t pair_key(token_id left, token_id right) noexcept {
  return pack(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
}

}  // namespace

void merge_table::add(token_id left, token_id right, token_id merged) {
  merges_.try_emplace(pair_key(left, right), merge{next_rank_++, merged});
}

const merge_table::merge* merge_table::find(token_id left, token_id right) const noexcept {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void byte_pair_encoder::encode(std::string_view piece, std::vector<token_id>& ids) {
  start(piece);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
    const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
    const auto left = static_cast<std::uint32_t>(heap_.back());
    heap_.pop_back();
    // A rank names one pair, so an entry is stale exactly when the pair that begins here now has another.
    if (chain_[left].pair_rank == rank) merge_pair(left);
  }
  for (std::uint32_t at = 0; at != no_link; at = chain_[at].next) ids.push_back(chain_[at].token);
}

void byte_pair_encoder::start(std::string_view piece) {
  EBB_ASSERT(!piece.empty());
  EBB_ASSERT(piece.size() < no_link);
  const auto size = static_cast<std::uint32_t>(piece.size());
  chain_.resize(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    const token_id token = token_of_byte_[static_cast<std::uint8_t>(piece[i])];
    chain_[i] = {token, i == 0 ? no_link : i - 1, i + 1 == size ? no_link : i + 1, no_rank, token};
  }
  for (std::uint32_t i = 0; i < size; ++i) rank_pair(i);
}

void byte_pair_encoder::rank_pair(std::uint32_t left) {
  link& first = chain_[left];
  first.pair_rank = no_rank;
  if (first.next == no_link) return;
  const merge_table::merge* merge = merges_.find(first.token, chain_[first.next].token);
  if (merge == nullptr) return;
  first.pair_rank = merge->rank;
  first.merged = merge->merged;
  heap_.push_back(pack(merge->rank, left));
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
}

void byte_pair_encoder::merge_pair(std::uint32_t left) {
  link& kept = chain_[left];
  link& dropped = chain_[kept.next];
  kept.token = kept.merged;
  kept.next = dropped.next;
  dropped.pair_rank = no_rank;
  if (kept.next != no_link) chain_[kept.next].previous = left;
  rank_pair(left);
  if (kept.previous != no_link) rank_pair(kept.previous);
}

}  // namespace ebb::model
