// tools/verification.hpp: the promise put to the test: one conversation under every condition that must not change it.
//
// The conversation is greedy, of a fixed length, and hashed over every logit it was picked from. It is run with caches from empty to
// full, in a batch of four, under random changes of the reserve, on one, two and three host cards, and with every instruction set
// this processor has.
#pragma once
#include "config/result.hpp"
#include "tools/connection.hpp"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ebb::tools {

struct verification_options {
  engine_options engine;
  std::string prompt;
  std::uint32_t n_tokens = 200;
  std::uint32_t n_resizes = 200;
  std::uint64_t seed = 1;
};

// What one condition gave.
struct verification_row {
  std::string condition;
  std::string isa;
  std::string hash;
  std::uint64_t tokens = 0;
  double tokens_per_s = 0;
  double hit_rate = 0;
  double gap_ms_max = 0;
  std::uint64_t resizes = 0;
  double resize_ms_max = 0;
  bool same = true;  // as the first row's
};

// Called with each row as it is ready. True if all hashes are the same. Errors: those of the engine.
result<bool> verify_promise(const verification_options& options, const std::function<void(const verification_row&)>& row);

}  // namespace ebb::tools
