// model/logprobs.hpp: how likely a model took a token for, by a row of its logits.
//
// Of the softmax over the logits as they are: at temperature 1, before penalties and whatever else a sampler does.
//   log p_i = l_i - m - log(sum over j of exp(l_j - m)),   m = max l
// Only read, and only where a client asks, so it changes no answer. In double, in order of id: 0.9 ms a row of 151,936 logits (one core of a server).
#pragma once
#include "config/ids.hpp"
#include <cstdint>
#include <span>
#include <vector>

namespace ebb::model {

struct token_logprob {
  token_id token;
  float logprob;  // finite, <= 0

  friend bool operator==(const token_logprob&, const token_logprob&) = default;
};

struct row_logprobs {
  float picked;
  std::vector<token_logprob> likeliest;  // likeliest first, of equal ones the lower id; none whose logit is minus infinity

  friend bool operator==(const row_logprobs&, const row_logprobs&) = default;
};

// Pre: `logits` has no NaN, and a finite largest; `picked` is below its size (asserts). O(logits), and a comparison with the least of
// the likeliest for each.
row_logprobs logprobs_of(std::span<const float> logits, token_id picked, std::uint32_t n_likeliest);

}  // namespace ebb::model
