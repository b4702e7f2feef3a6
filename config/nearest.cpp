#include "config/nearest.hpp"
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace ebb {
namespace {

// A longer word is no slip of the keyboard, and a client could make the comparison as slow as its message is long.
constexpr std::size_t word_bytes_max = 64;

// Row i of the usual table holds the distance of the first i letters of `a` to every prefix of `b`; a swap looks two rows back.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row_before(b.size() + 1);
  std::vector<std::size_t> row_above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row_before.swap(row_above);
    row_above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = row_above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, row_above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], row_before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > word_bytes_max) return {};
  std::string_view best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : known) {
    const std::size_t letters = distance(word, candidate);
    if (2 * letters >= std::max(word.size(), candidate.size())) continue;
    if (best.empty() || letters < best_distance) {
      best = candidate;
      best_distance = letters;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view guess = nearest(word, known);
  return guess.empty() ? std::string{} : "; did you mean \"" + std::string(guess) + "\"?";
}

}  // namespace ebb
