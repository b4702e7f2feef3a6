// model/byte_pairs.hpp: byte pair encoding of one piece of text.
//
// A piece starts as one token a byte. The neighbouring pair of the lowest rank is merged into its token, the leftmost such pair
// first, until no neighbours have a rank. n bytes take O(n log n): a heap of (rank, position), stale entries skipped when they
// come up, so that a megabyte without a space is no attack.
#pragma once
#include "config/ids.hpp"
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ebb::model {

// Immutable once filled, so any thread may read it.
class merge_table {
 public:
  struct merge {
    std::uint32_t rank;
    token_id merged;
  };

  // The ranks are the order of the calls, 0 first. A pair that has a rank keeps it.
  void add(token_id left, token_id right, token_id merged);

  // Null where the pair does not merge.
  const merge* find(token_id left, token_id right) const noexcept;

 private:
  std::unordered_map<std::uint64_t, merge> merges_;  // left in the upper half of the key, right in the lower
  std::uint32_t next_rank_ = 0;
};

// Encodes pieces one after another and keeps its buffers between them. One thread at a time; the tables must outlive it.
class byte_pair_encoder {
 public:
  byte_pair_encoder(const std::array<token_id, 256>& token_of_byte, const merge_table& merges) noexcept
      : token_of_byte_(token_of_byte), merges_(merges) {}

  // Appends the tokens of `piece`. Pre: not empty, below 4 GiB.
  void encode(std::string_view piece, std::vector<token_id>& ids);

 private:
  // A link of the chain of tokens that are left; a merge keeps the left link and drops the right one.
  struct link {
    token_id token;
    std::uint32_t previous;
    std::uint32_t next;
    std::uint32_t pair_rank;  // of this link with the next; no_rank: they do not merge, or the link was dropped
    token_id merged;          // what the two become
  };

  void start(std::string_view piece);
  void rank_pair(std::uint32_t left);
  void merge_pair(std::uint32_t left);

  const std::array<token_id, 256>& token_of_byte_;
  const merge_table& merges_;
  std::vector<link> chain_;
  std::vector<std::uint64_t> heap_;  // rank in the upper half, position in the lower: the least is the next to merge
};

}  // namespace ebb::model
