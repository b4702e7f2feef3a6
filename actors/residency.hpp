// actors/residency.hpp: the newest residency of every card, and whether its stage may run on the fast path.
#pragma once
#include "actors/messages.hpp"
#include <optional>
#include <unordered_map>

namespace ebb::actors {

class residency {
 public:
  // Takes a card's change in O(1). Gives the version to build a fast path for, if the stage is resident now and this is news.
  std::optional<std::uint64_t> take(const residency_change& change);

  bool resident(card_id card) const;

 private:
  struct stage {
    std::uint64_t version = 0;
    bool resident = false;
  };
  std::unordered_map<card_id, stage> stages_;
};

}  // namespace ebb::actors
