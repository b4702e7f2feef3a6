#include "model/token_trie.hpp"
#include "config/assert.hpp"

namespace ebb::model {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) noexcept { return std::uint64_t{node} * 256 + static_cast<std::uint8_t>(byte); }

}  // namespace

void token_trie::add(std::string_view text, token_id token) {
  EBB_ASSERT(!text.empty());
  begins_[static_cast<std::uint8_t>(text[0])] = true;
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto [child, is_new] = children_.try_emplace(edge(node, byte), static_cast<std::uint32_t>(token_at_.size()));
    if (is_new) token_at_.push_back(no_token);
    node = child->second;
  }
  if (token_at_[node] == no_token) token_at_[node] = token;
}

token_trie::match token_trie::find(std::string_view text, std::size_t begin) const {
  for (std::size_t at = begin; at < text.size(); ++at) {
    if (!begins_[static_cast<std::uint8_t>(text[at])]) continue;
    const match found = longest_prefix(text.substr(at));
    if (found.size_bytes > 0) return {at, found.size_bytes, found.token};
  }
  return {text.size(), 0, no_token};
}

token_trie::match token_trie::longest_prefix(std::string_view text) const {
  match longest = {0, 0, no_token};
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto child = children_.find(edge(node, text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (token_at_[node] != no_token) longest = {0, i + 1, token_at_[node]};
  }
  return longest;
}

}  // namespace ebb::model
