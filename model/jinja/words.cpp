#include "model/jinja/words.hpp"
#include "model/jinja/letters.hpp"
#include <algorithm>
#include <string>

namespace ebb::model::jinja {
namespace {

template <class Change>
text changed(run& in, const text& words, Change change) {
  if (!in.make(words.size())) return text();
  std::string bytes = words.bytes();
  change(bytes);
  return text::derived(std::move(bytes), words);
}

bool ends_line(char32_t c) noexcept {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

void lower_all(std::string& bytes) { std::ranges::transform(bytes, bytes.begin(), to_lower); }

}  // namespace

text stripped(run& in, const text& words, side where, const text* set) {
  if (!in.make(words.size()) || (set && !in.step(set->size()))) return text();
  const auto drop = [&](char32_t c) {
    if (!set) return is_space(c);
    std::string character;
    append_utf8(character, c);
    return set->view().find(character) != std::string_view::npos;
  };
  const std::size_t begin = where == side::right ? 0 : count_leading(words.view(), drop);
  const std::string_view rest = words.view().substr(begin);
  const std::size_t end = where == side::left ? 0 : count_trailing(rest, drop);
  return words.cut(begin, rest.size() - end);
}

text replaced(run& in, const text& words, const text& before, const text& after, std::int64_t count) {
  if (!in.look(words.size())) return text();
  text out;
  std::size_t done = 0;
  const auto put = [&](const text& part) {
    if (in.make(part.size())) out.append(part);
  };
  for (std::size_t from = 0; count != 0 && !in.failed(); --count) {
    const std::size_t found = words.view().find(before.view(), from);
    if (found == std::string_view::npos) break;
    put(words.cut(done, found - done));
    put(after);
    done = found + before.size();
    if (found == words.size()) break;
    from = before.empty() ? found + first_unit(words.view().substr(found)).size_bytes : done;
  }
  put(words.cut(done, words.size()));
  return out;
}

std::vector<text> lines_of(run& in, const text& words, bool keep_ends) {
  std::vector<text> out;
  const std::string_view all = words.view();
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t size = count_leading(all.substr(at), [](char32_t c) { return !ends_line(c); });
    std::size_t next = at + size;
    if (next < all.size()) next += all.substr(next).starts_with("\r\n") ? 2 : first_unit(all.substr(next)).size_bytes;
    if (!in.make(sizeof(text) + next - at)) break;
    out.push_back(words.cut(at, keep_ends ? next - at : size));
    at = next;
  }
  return out;
}

text in_upper(run& in, const text& words) {
  return changed(in, words, [](std::string& bytes) { std::ranges::transform(bytes, bytes.begin(), to_upper); });
}

text in_lower(run& in, const text& words) { return changed(in, words, lower_all); }

text capitalized(run& in, const text& words) {
  return changed(in, words, [](std::string& bytes) {
    lower_all(bytes);
    if (!bytes.empty()) bytes[0] = to_upper(bytes[0]);
  });
}

text titled(run& in, const text& words) {
  return changed(in, words, [](std::string& bytes) {
    bool inside = false;
    for (char& c : bytes) {
      c = inside ? to_lower(c) : to_upper(c);
      inside = is_letter(c) || static_cast<unsigned char>(c) >= 0x80;
    }
  });
}

}  // namespace ebb::model::jinja
