// model/token_trie.hpp: finds the tokens that are matched in text as a whole (control and user-defined ones).
#pragma once
#include "config/ids.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ebb::model {

// Immutable once filled, so any thread may read it.
class token_trie {
 public:
  struct match {
    std::size_t begin;       // in the text searched
    std::size_t size_bytes;  // 0: nothing was found, and begin is the end of the text
    token_id token;
  };

  // Of two tokens with one text the first added counts. Pre: `text` is not empty.
  void add(std::string_view text, token_id token);

  // The leftmost match at or after `begin`, the longest where several start there. O(bytes passed x longest token).
  match find(std::string_view text, std::size_t begin) const;

 private:
  static constexpr token_id no_token = -1;

  // The longest token at the start of `text`, in match.begin 0.
  match longest_prefix(std::string_view text) const;

  std::array<bool, 256> begins_{};                             // does any token begin with this byte? Most text is passed by it
  std::vector<token_id> token_at_ = {no_token};                // [n_nodes]; node 0 is the empty text
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // node * 256 + byte -> node
};

}  // namespace ebb::model
