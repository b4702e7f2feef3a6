// model/name_index.hpp: finds the items of a vector by name. Sorted once, so that no choice of names in a file makes it slow.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ebb::model {

class name_index {
 public:
  name_index() = default;

  // Keeps views of the names, none of the items.
  template <class T>
  name_index(const std::vector<T>& items, std::string_view T::*name) {
    entries_.reserve(items.size());
    for (const T& item : items) entries_.push_back({item.*name, static_cast<std::uint32_t>(entries_.size())});
    std::ranges::sort(entries_, {}, &entry::name);
  }

  // The index of the item with this name. O(log n).
  std::optional<std::uint32_t> find(std::string_view name) const noexcept {
    const auto found = std::ranges::lower_bound(entries_, name, {}, &entry::name);
    if (found == entries_.end() || found->name != name) return std::nullopt;
    return found->index;
  }

  // A name that two items have, if there is one.
  std::optional<std::string_view> duplicate() const noexcept {
    const auto found = std::ranges::adjacent_find(entries_, {}, &entry::name);
    if (found == entries_.end()) return std::nullopt;
    return found->name;
  }

 private:
  struct entry {
    std::string_view name;
    std::uint32_t index;
  };
  std::vector<entry> entries_;
};

}  // namespace ebb::model
