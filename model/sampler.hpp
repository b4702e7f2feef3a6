// model/sampler.hpp: picks the next token from the logits of a row.
//
// In this order, each step off at its default:
//   1. repeat_penalty r  a token among the last repeat_last_n: x / r where x > 0, else x * r, once however often it occurred
//                        (Keskar et al. 2019, CTRL)
//   2. temperature 0     the largest x; the steps below and the generator are not used
//   3. top_k             the k largest x                                                       (Fan et al. 2018)
//   4. temperature t     p = softmax(x / t), of the tokens whose x is within 30 t of the largest
//   5. top_p             the fewest most likely tokens whose p sum to at least top_p          (Holtzman et al. 2020)
//   6. min_p             those with p at least min_p times the largest                         (Nguyen et al. 2024)
//   7. draw              in proportion to p: the first token at which the running sum passes a random share of the whole; from the
//                        likeliest on if top_k or top_p is on, else in order of id
// Equal logits rank by id, the smaller first. p in steps 5 and 6 is that of step 4.
// The same seed and logits give the same tokens: the generator is std::mt19937_64, whose output the standard fixes, and the draw
// is ours, since the distributions of the library differ from one to another.
#pragma once
#include "config/ids.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace ebb::model {

struct sampling_params {
  float temperature = 0;             // >= 0; 0 is greedy
  std::uint32_t top_k = 0;           // 0 is off
  float top_p = 1;                   // [0, 1]; 1 is off, 0 keeps the most likely token
  float min_p = 0;                   // [0, 1]; 0 is off
  float repeat_penalty = 1;          // > 0; 1 is off
  std::uint32_t repeat_last_n = 64;  // tokens looked back at, prompt included; 0 is off
  std::uint64_t seed = 0;

  friend bool operator==(const sampling_params&, const sampling_params&) = default;
};

// Errors: bad_value, naming the field.
result<void> check(const sampling_params& params);

class sampler {
 public:
  // Pre: check(params) holds.
  explicit sampler(const sampling_params& params);

  // Pre: `logits` is not empty and has no NaN, and one of them is finite; the ids of `history` are below its size. A broken one
  // is our bug and asserts.
  token_id pick(std::span<const float> logits, std::span<const token_id> history);

 private:
  struct candidate {
    token_id id;
    float logit;
    float weight;  // p times a factor that all candidates share
  };
  static bool likelier(const candidate& a, const candidate& b) noexcept;

  std::span<const float> penalised(std::span<const float> logits, std::span<const token_id> history);
  void take_all(std::span<const float> logits, float floor);
  void take_top_k(std::span<const float> logits, float floor);
  void weigh_candidates(float max_logit) noexcept;
  double sum_of_weights() const noexcept;
  void cut();
  token_id draw();

  sampling_params params_;
  float reach_;  // candidates lie less than so many temperatures below the likeliest
  std::mt19937_64 generator_;
  // Kept between calls so that the token loop does not allocate.
  std::vector<float> penalised_;
  std::vector<token_id> recent_;
  std::vector<candidate> candidates_;
};

}  // namespace ebb::model
