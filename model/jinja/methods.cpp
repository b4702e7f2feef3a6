#include "model/jinja/methods.hpp"
#include "config/utf8.hpp"
#include "model/jinja/letters.hpp"
#include "model/jinja/lookup.hpp"
#include "model/jinja/words.hpp"
#include <algorithm>
#include <array>
#include <optional>
#include <string>

namespace ebb::model::jinja {
namespace {

constexpr std::array<std::string_view, 23> text_methods = {"strip",      "lstrip",   "rstrip",       "split",        "rsplit", "splitlines",
                                                           "startswith", "endswith", "upper",        "lower",        "title",  "capitalize",
                                                           "replace",    "find",     "rfind",        "count",        "join",   "isdigit",
                                                           "isalpha",    "isspace",  "removeprefix", "removesuffix", "format"};
constexpr std::array<std::string_view, 4> dict_methods = {"items", "keys", "values", "get"};
constexpr std::array<std::string_view, 2> sequence_methods = {"index", "count"};

value strip(run& in, const text& words, side where, std::string_view name, const arguments& given) {
  if (!given.fit(in, name, {"chars"})) return value();
  const value chars = given.get(0, "chars", value::nothing());
  if (chars.is_none()) return stripped(in, words, where, nullptr);
  const text* set = to_words(in, chars, "what to strip");
  return set ? value(stripped(in, words, where, set)) : value();
}

// A list of the pieces of `words` that grows while the run can pay for it.
class pieces {
 public:
  pieces(run& in, const text& words) : in_(in), words_(words) {}
  void add(std::size_t begin, std::size_t end) {
    if (in_.make(sizeof(value) + sizeof(text) + end - begin)) out_.push_back(words_.cut(begin, end - begin));
  }
  value take() { return in_.list(std::move(out_)); }
  value take_reversed() {
    std::ranges::reverse(out_);
    return take();
  }

 private:
  run& in_;
  const text& words_;
  std::vector<value> out_;
};

value split_at_blanks(run& in, const text& words, std::int64_t limit) {
  pieces out(in, words);
  const std::string_view all = words.view();
  std::size_t at = count_leading(all, is_space);
  for (; at < all.size() && limit != 0 && !in.failed(); --limit) {
    const std::size_t size = count_leading(all.substr(at), [](char32_t c) { return !is_space(c); });
    out.add(at, at + size);
    at += size;
    at += count_leading(all.substr(at), is_space);
  }
  if (at < all.size()) out.add(at, all.size() - count_trailing(all, is_space));
  return out.take();
}

value rsplit_at_blanks(run& in, const text& words, std::int64_t limit) {
  pieces out(in, words);
  const std::string_view all = words.view();
  std::size_t end = all.size() - count_trailing(all, is_space);
  for (; end > 0 && limit != 0 && !in.failed(); --limit) {
    const std::size_t size = count_trailing(all.substr(0, end), [](char32_t c) { return !is_space(c); });
    out.add(end - size, end);
    end -= size;
    end -= count_trailing(all.substr(0, end), is_space);
  }
  if (end > 0) out.add(count_leading(all, is_space), end);
  return out.take_reversed();
}

value split_at(run& in, const text& words, std::string_view separator, std::int64_t limit) {
  pieces out(in, words);
  std::size_t done = 0;
  for (std::size_t found; limit != 0 && !in.failed(); --limit) {
    found = words.view().find(separator, done);
    if (found == std::string_view::npos) break;
    out.add(done, found);
    done = found + separator.size();
  }
  out.add(done, words.size());
  return out.take();
}

value rsplit_at(run& in, const text& words, std::string_view separator, std::int64_t limit) {
  pieces out(in, words);
  std::size_t end = words.size();
  for (std::size_t found; limit != 0 && end >= separator.size() && !in.failed(); --limit) {
    found = words.view().rfind(separator, end - separator.size());
    if (found == std::string_view::npos) break;
    out.add(found + separator.size(), end);
    end = found;
  }
  out.add(0, end);
  return out.take_reversed();
}

value split(run& in, const text& words, bool from_right, const arguments& given) {
  if (!given.fit(in, "split", {"sep", "maxsplit"}) || !in.look(words.size())) return value();
  const value separator = given.get(0, "sep", value::nothing());
  const auto limit = to_integer(in, given.get(1, "maxsplit", value(std::int64_t{-1})), "maxsplit");
  if (!limit) return value();
  if (separator.is_none()) return from_right ? rsplit_at_blanks(in, words, *limit) : split_at_blanks(in, words, *limit);
  const text* at = to_words(in, separator, "what to split at");
  if (!at) return value();
  if (at->empty()) return in.fail("cannot split at an empty string");
  return from_right ? rsplit_at(in, words, at->view(), *limit) : split_at(in, words, at->view(), *limit);
}

value split_lines(run& in, const text& words, const arguments& given) {
  if (!given.fit(in, "splitlines", {"keepends"})) return value();
  std::vector<value> out;
  for (text& line : lines_of(in, words, given.get(0, "keepends", false).truth())) out.push_back(std::move(line));
  return in.list(std::move(out));
}

// Whether `words` has one of the texts of `wanted`, a string or a tuple of them, at that end.
value has_at_end(run& in, const text& words, bool at_start, const arguments& given) {
  if (!given.fit(in, at_start ? "startswith" : "endswith", {"affix"}, 1)) return value();
  const value& wanted = *given.find(0, "affix");
  const auto matches = [&](const value& affix) {
    const text* part = to_words(in, affix, "what a string is compared with");
    if (!part || !in.look(part->size())) return false;
    return at_start ? words.view().starts_with(part->view()) : words.view().ends_with(part->view());
  };
  const sequence* several = wanted.as_sequence();
  if (!several || !several->is_tuple) return matches(wanted);
  return std::ranges::any_of(several->items, matches);
}

value replace(run& in, const text& words, const arguments& given) {
  if (!given.fit(in, "replace", {"old", "new", "count"}, 2)) return value();
  const text *before = to_words(in, *given.find(0, "old"), "what to replace"),
             *after = to_words(in, *given.find(1, "new"), "what to replace it with");
  const auto count = to_integer(in, given.get(2, "count", value(std::int64_t{-1})), "count");
  return before && after && count ? value(replaced(in, words, *before, *after, *count)) : value();
}

value find(run& in, const text& words, bool from_right, const arguments& given) {
  if (!given.fit(in, "find", {"sub"}, 1) || !in.look(words.size())) return value();
  const text* part = to_words(in, *given.find(0, "sub"), "what to find");
  if (!part) return value();
  const std::size_t found = from_right ? words.view().rfind(part->view()) : words.view().find(part->view());
  if (found == std::string_view::npos) return std::int64_t{-1};
  return static_cast<std::int64_t>(length_of(words.view().substr(0, found)));
}

value count(run& in, const text& words, const arguments& given) {
  if (!given.fit(in, "count", {"sub"}, 1) || !in.look(words.size())) return value();
  const text* part = to_words(in, *given.find(0, "sub"), "what to count");
  if (!part) return value();
  if (part->empty()) return static_cast<std::int64_t>(length_of(words.view())) + 1;
  std::int64_t out = 0;
  for (std::size_t at = words.view().find(part->view()); at != std::string_view::npos;
       at = words.view().find(part->view(), at + part->size()))
    ++out;
  return out;
}

value join(run& in, const text& separator, const arguments& given) {
  if (!given.fit(in, "join", {"iterable"}, 1)) return value();
  const auto items = items_of(in, *given.find(0, "iterable"));
  text out;
  for (std::size_t index = 0; items && index < items->size(); ++index) {
    const text* words = to_words(in, (*items)[index], "what join joins");
    if (!words || !in.make(words->size() + separator.size())) return value();
    if (index > 0) out.append(separator);
    out.append(*words);
  }
  return out;
}

value without_affix(run& in, const text& words, bool prefix, const arguments& given) {
  if (!given.fit(in, prefix ? "removeprefix" : "removesuffix", {"affix"}, 1) || !in.make(words.size())) return value();
  const text* affix = to_words(in, *given.find(0, "affix"), "what to remove");
  if (!affix) return value();
  if (prefix) return words.view().starts_with(affix->view()) ? words.cut(affix->size(), words.size()) : words;
  return words.view().ends_with(affix->view()) ? words.cut(0, words.size() - affix->size()) : words;
}

// The value that the field of a format names: the next, a number or a name. Forms behind ":" or "!" are not supported.
const value* field_of(run& in, std::string_view field, std::size_t& next, const arguments& given) {
  std::size_t index = next;
  const bool is_number = !field.empty() && std::ranges::all_of(field, is_digit);
  if (field.empty()) ++next;
  if (is_number && field.size() > 4) return in.fail("format has no argument " + in_quotes(field)), nullptr;
  if (is_number) index = std::stoul(std::string(field));
  const value* held =
      field.empty() || is_number ? (index < given.positional.size() ? &given.positional[index] : nullptr) : given.find(SIZE_MAX, field);
  if (!held) in.fail("format has no argument for " + in_quotes(field));
  return held;
}

value format(run& in, const text& words, const arguments& given) {
  const std::string_view all = words.view();
  text out;
  for (std::size_t at = 0, next = 0; at < all.size();) {
    const std::size_t plain = std::min(all.find_first_of("{}", at), all.size());
    const bool doubled = plain + 1 < all.size() && all[plain] == all[plain + 1];
    if (!in.make(plain - at + 1)) return value();
    out.append(words.cut(at, plain - at + (doubled ? 1 : 0)));
    if (plain == all.size()) break;
    const std::size_t end = doubled ? plain + 1 : all.find('}', plain);
    if (!doubled) {
      if (all[plain] == '}' || end == std::string_view::npos)
        return in.fail("a single " + in_quotes(all.substr(plain, 1)) + " in a format");
      const value* held = field_of(in, all.substr(plain + 1, end - plain - 1), next, given);
      if (!held || !in.walk(*held)) return value();
      const text written = to_text(*held);
      if (!in.make(written.size())) return value();
      out.append(written);
    }
    at = end + 1;
  }
  return out;
}

template <class Predicate>
value all_of(run& in, const text& words, Predicate is_one) {
  return in.look(words.size()) && !words.empty() && count_leading(words.view(), is_one) == words.size();
}

value call_text_method(run& in, const text& words, std::string_view name, const arguments& given) {
  if (name == "strip") return strip(in, words, side::both, name, given);
  if (name == "lstrip") return strip(in, words, side::left, name, given);
  if (name == "rstrip") return strip(in, words, side::right, name, given);
  if (name == "split" || name == "rsplit") return split(in, words, name == "rsplit", given);
  if (name == "splitlines") return split_lines(in, words, given);
  if (name == "startswith" || name == "endswith") return has_at_end(in, words, name == "startswith", given);
  if (name == "replace") return replace(in, words, given);
  if (name == "find" || name == "rfind") return find(in, words, name == "rfind", given);
  if (name == "count") return count(in, words, given);
  if (name == "join") return join(in, words, given);
  if (name == "format") return format(in, words, given);
  if (name == "removeprefix" || name == "removesuffix") return without_affix(in, words, name == "removeprefix", given);
  if (!given.fit(in, name, {})) return value();
  if (name == "upper") return in_upper(in, words);
  if (name == "lower") return in_lower(in, words);
  if (name == "title") return titled(in, words);
  if (name == "capitalize") return capitalized(in, words);
  if (name == "isspace") return all_of(in, words, is_space);
  if (name == "isdigit") return all_of(in, words, [](char32_t c) { return c < 0x80 && is_digit(static_cast<char>(c)); });
  return all_of(in, words, [](char32_t c) { return c >= 0x80 || is_letter(static_cast<char>(c)); });
}

value call_dict_method(run& in, const dictionary& entries, std::string_view name, const arguments& given) {
  if (name == "get") {
    if (!given.fit(in, "get", {"key", "default"}, 1) || !in.step(entries.entries.size() / 4) || !in.walk(*given.find(0, "key")))
      return value();
    const value* held = find_key(entries, *given.find(0, "key"));
    return held ? *held : given.get(1, "default", value::nothing());
  }
  if (!given.fit(in, name, {})) return value();
  std::vector<value> out;
  if (!in.make(entries.entries.size() * 4 * sizeof(value))) return value();
  for (const auto& [key, held] : entries.entries) out.push_back(name == "items" ? value::tuple({key, held}) : name == "keys" ? key : held);
  return in.list(std::move(out));
}

value call_sequence_method(run& in, const sequence& items, std::string_view name, const arguments& given) {
  if (!given.fit(in, name, {"value"}, 1)) return value();
  const value& wanted = *given.find(0, "value");
  std::int64_t count = 0;
  for (std::size_t index = 0; index < items.items.size() && in.walk(wanted); ++index) {
    if (!equal(items.items[index], wanted)) continue;
    if (name == "index") return static_cast<std::int64_t>(index);
    ++count;
  }
  return name == "index" ? in.fail("the list has no such item") : value(count);
}

template <std::size_t N>
bool has(const std::array<std::string_view, N>& names, std::string_view name) noexcept {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_text_method(std::string_view name) noexcept { return has(text_methods, name); }
bool is_dict_method(std::string_view name) noexcept { return has(dict_methods, name); }
bool is_sequence_method(std::string_view name) noexcept { return has(sequence_methods, name); }

value call_method(run& in, const value& object, std::string_view name, const arguments& given) {
  if (const text* words = object.as_text()) return call_text_method(in, *words, name, given);
  if (const dictionary* entries = object.as_dict()) return call_dict_method(in, *entries, name, given);
  if (const sequence* items = object.as_sequence()) return call_sequence_method(in, *items, name, given);
  auto* const* loop = object.get<loop_state*>();
  if (!loop) return in.fail("no method " + std::string(name));
  if (name == "cycle") {
    return given.positional.empty() ? in.fail("cycle needs an argument") : given.positional[(*loop)->index % given.positional.size()];
  }
  const value now = in.tuple(given.positional);
  const bool changed = !(*loop)->changed || (in.walk(now) && !equal(*(*loop)->changed, now));
  (*loop)->changed = now;
  return changed;
}

}  // namespace ebb::model::jinja
