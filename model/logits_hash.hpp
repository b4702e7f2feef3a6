// model/logits_hash.hpp: one number for all logits of an answer, by which two runs are compared bit for bit.
//
// XXH3 (128 bits, seed 0) over the rows one after another, each value as a little-endian float32.
#pragma once
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace ebb::model {

class logits_hash {
 public:
  logits_hash();

  void add(std::span<const float> row);

  // Of the rows so far: 32 hexadecimal digits, in XXH128's canonical (big-endian) order.
  std::string hex() const;

 private:
  struct state_free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, state_free> state_;
};

}  // namespace ebb::model
