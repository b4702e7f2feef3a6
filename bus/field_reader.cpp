#include "bus/field_reader.hpp"
#include "config/nearest.hpp"
#include "config/utf8.hpp"
#include <algorithm>

namespace ebb::bus {
namespace {

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

}  // namespace

void field_reader::refuse(errc code, std::string text) {
  if (!wrong_) wrong_ = error{code, with_owner(std::move(text))};
}

void field_reader::refuse_unknown_keys() {
  for (auto at = from_.begin(); at != from_.end(); ++at) {
    if (std::find(known_.begin(), known_.end(), at->key) == known_.end()) {
      const std::string guess = did_you_mean(at->key, known_);
      wrong_ = error{errc::unknown_key, with_owner("there is no field " + in_quotes(at->key) +
                                                   (guess.empty() ? "; the fields are " + listed(known_) : guess))};
      return;
    }
    const auto same_key = [&](const wire::field& other) { return other.key == at->key; };
    if (std::any_of(from_.begin(), at, same_key)) {
      wrong_ = error{errc::malformed, with_owner(std::string(at->key) + " is given twice; give it once")};
      return;
    }
  }
}

std::string field_reader::indexed(std::string_view key, std::size_t index) {
  return std::string(key) + "[" + std::to_string(index) + "]";
}

const wire::value* field_reader::find(std::string_view key) {
  known_.push_back(key);
  const auto at = std::find_if(from_.begin(), from_.end(), [&](const wire::field& each) { return each.key == key; });
  return at == from_.end() ? nullptr : &at->content;
}

void field_reader::refuse_value(std::string_view key, const std::string& wanted, const wire::value& got, presence when) {
  const bool nil_for_nothing = when == presence::optional && std::holds_alternative<std::monostate>(got.held);
  refuse(errc::bad_value, std::string(key) + " must be " + wanted + or_nil(when) + ", not " + describe(got) +
                              (nil_for_nothing ? "; leave it out instead" : ""));
}

std::string field_reader::with_owner(std::string text) const { return owner_.empty() ? text : owner_ + ": " + text; }

}  // namespace ebb::bus
