// tools/wide_prompt.hpp: a prompt to measure with.
#pragma once
#include "config/ids.hpp"
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebb::tools {

// Ids spread over the vocabulary, the same in every run, so that routing is as wide as in real text.
inline std::vector<token_id> wide_prompt(std::uint32_t n_tokens, std::size_t n_vocab) {
  std::vector<token_id> ids(n_tokens);
  for (std::uint32_t i = 0; i < n_tokens; ++i) ids[i] = static_cast<token_id>((std::uint64_t{i} * 2654435761u) % n_vocab);
  return ids;
}

}  // namespace ebb::tools
