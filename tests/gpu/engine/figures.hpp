// tests/gpu/engine/figures.hpp: what is measured with, and how it is printed: a line a figure, and a line "goal: met" or "goal: MISSED" where
// one is set, which tests/gpu/run gathers.
#pragma once
#include "tests/gpu/engine/served.hpp"
#include "tools/spread.hpp"

namespace ebb::tools::test {

// What `of` the measured values must be at most.
struct goal {
  double most;
  double spread::*of = &spread::median;
};

void print_head(const std::string& what);
void print(const std::string& what, const std::string& shape, const std::vector<double>& values, const char* unit, std::optional<goal> bound = {});
void print_goal(bool met, const std::string& what);
std::string gib_of(double of_mib);

// An answer to ids spread over the vocabulary, with its hash; other `first` tokens make another answer.
bus::generate conversation(const served& with, std::uint32_t n_tokens, std::uint32_t n_prompt = 16, token_id first = 0);

// Of the model that EBB_TEST_MODEL names, or of the demo model in the smallest segments. One session at a time.
settings measured_on(std::vector<card_choice> cards);

}  // namespace ebb::tools::test
