#include "model/jinja/filters.hpp"
#include "config/utf8.hpp"
#include "model/jinja/json_text.hpp"
#include "model/jinja/letters.hpp"
#include "model/jinja/lookup.hpp"
#include "model/jinja/operators.hpp"
#include "model/jinja/predicates.hpp"
#include "model/jinja/words.hpp"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace ebb::model::jinja {
namespace {

using filter = value (*)(run&, const value&, const arguments&);

// Python's str() of what a filter of texts is given.
text words_of(run& in, const value& of) { return in.walk(of) ? to_text(of) : text(); }

template <text (*change)(run&, const text&)>
value changed(run& in, const value& of, const arguments& given) {
  return given.fit(in, "the filter", {}) ? value(change(in, words_of(in, of))) : value();
}

value trim(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "trim", {"chars"})) return value();
  const value chars = given.get(0, "chars", value::nothing());
  const text* set = chars.is_none() ? nullptr : to_words(in, chars, "what to trim");
  return in.failed() ? value() : value(stripped(in, words_of(in, of), side::both, set));
}

// As the filter has it: a letter after white space or an opening bracket or a hyphen is large, all others small.
text title_words(run& in, const text& words) {
  if (!in.make(words.size())) return text();
  std::string out;
  bool begins = true;
  for (const char c : words.view()) {
    out += begins ? to_upper(c) : to_lower(c);
    begins = std::string_view(" \t\n\v\f\r-({[<").find(c) != std::string_view::npos;
  }
  return text::derived(std::move(out), words);
}

value replace(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "replace", {"old", "new", "count"}, 2)) return value();
  const value count = given.get(2, "count", value::nothing());
  const auto times = count.is_none() ? std::int64_t{-1} : to_integer(in, count, "count").value_or(0);
  const text before = words_of(in, *given.find(0, "old")), after = words_of(in, *given.find(1, "new"));
  return replaced(in, words_of(in, of), before, after, times);
}

value escape(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "escape", {})) return value();
  text out = words_of(in, of);
  static constexpr std::array<std::pair<const char*, const char*>, 5> entities = {
      {{"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}}};
  for (const auto& [letter, entity] : entities) out = replaced(in, out, text(letter), text(entity), -1);
  return out;
}

value safe(run& in, const value& of, const arguments& given) { return given.fit(in, "safe", {}) ? value(words_of(in, of)) : value(); }

value length(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "length", {})) return value();
  const auto count = length_of(in, of);
  return count ? value(*count) : value();
}

value fallback(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "default", {"default_value", "boolean"})) return value();
  const bool unset = of.is_undefined() || (given.get(1, "boolean", false).truth() && !of.truth());
  return unset ? given.get(0, "default_value", "") : of;
}

value join(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "join", {"d", "attribute"})) return value();
  const auto items = items_of(in, of);
  const text separator = words_of(in, given.get(0, "d", ""));
  const value attribute = given.get(1, "attribute", value::nothing());
  text out;
  for (std::size_t index = 0; items && index < items->size() && !in.failed(); ++index) {
    const text words = words_of(in, attribute.is_none() ? (*items)[index] : path_of(in, (*items)[index], attribute));
    if (!in.make(words.size() + separator.size())) break;
    if (index > 0) out.append(separator);
    out.append(words);
  }
  return out;
}

value end_of(run& in, const value& of, bool first) {
  const auto items = items_of(in, of);
  if (!items) return value();
  if (items->empty()) return value::missing("No " + std::string(first ? "first" : "last") + " item, sequence was empty.");
  return first ? items->front() : items->back();
}
value first(run& in, const value& of, const arguments& given) { return given.fit(in, "first", {}) ? end_of(in, of, true) : value(); }
value last(run& in, const value& of, const arguments& given) { return given.fit(in, "last", {}) ? end_of(in, of, false) : value(); }

value list(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "list", {})) return value();
  auto items = items_of(in, of);
  return items ? in.list(*std::move(items)) : value();
}

value reverse(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "reverse", {})) return value();
  auto items = items_of(in, of);
  if (!items) return value();
  std::ranges::reverse(*items);
  if (!of.as_text()) return in.list(*std::move(items));
  text out;
  for (const value& character : *items) out.append(*character.as_text());
  return out;
}

// A number at the beginning and end of which there may be white space, as Python reads it.
template <class T>
std::optional<T> number_in(std::string_view words) {
  words.remove_prefix(count_leading(words, is_space));
  words.remove_suffix(count_trailing(words, is_space));
  if (words.starts_with('+') && words.size() > 1 && words[1] != '-') words.remove_prefix(1);
  T out{};
  const auto parsed = std::from_chars(words.data(), words.data() + words.size(), out);
  return parsed.ec == std::errc() && parsed.ptr == words.data() + words.size() && !words.empty() ? std::optional(out) : std::nullopt;
}

std::optional<std::int64_t> truncated(double number) {
  return std::abs(number) < 9.2e18 ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

value to_int(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "int", {"default"})) return value();
  if (of.is_undefined()) return in.fail("int of an undefined value: " + of.get<undefined>()->name);
  std::int64_t room;
  std::optional<std::int64_t> out;
  if (const std::int64_t* number = of.as_index(room)) out = *number;
  if (const double* number = of.get<double>()) out = truncated(*number);
  if (const text* words = of.as_text(); words && in.look(words->size())) {
    out = number_in<std::int64_t>(words->view());
    const auto real = number_in<double>(words->view());
    if (!out && real) out = truncated(*real);
  }
  return out ? value(*out) : given.get(0, "default", value(std::int64_t{0}));
}

value to_float(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "float", {"default"})) return value();
  if (of.is_undefined()) return in.fail("float of an undefined value: " + of.get<undefined>()->name);
  if (of.is_number()) return of.as_double();
  const text* words = of.as_text();
  const auto out = words && in.look(words->size()) ? number_in<double>(words->view()) : std::nullopt;
  return out ? value(*out) : given.get(0, "default", value(0.0));
}

// The name that a filter or test is called by in `given`, and the arguments behind it.
struct named_call {
  std::string name;
  arguments given;
};
std::optional<named_call> call_in(run& in, const arguments& given, std::size_t index) {
  const text* name = to_words(in, given.positional[index], "the name of a filter or test");
  if (!name) return std::nullopt;
  named_call out{name->bytes(), {}};
  const auto begin = given.positional.begin() + static_cast<std::ptrdiff_t>(index) + 1;
  out.given.positional.assign(begin, given.positional.end());
  out.given.named = given.named;
  return out;
}

value map(run& in, const value& of, const arguments& given) {
  if (!of.truth()) return in.list({});  // none too, as in Jinja
  auto items = items_of(in, of);
  if (!items) return value();
  const value* attribute = given.positional.empty() ? given.find(SIZE_MAX, "attribute") : nullptr;
  if (attribute) {
    if (!given.fit(in, "map", {"attribute", "default"})) return value();
    for (value& item : *items) {
      item = path_of(in, item, *attribute);
      if (item.is_undefined()) item = given.get(SIZE_MAX, "default", item);
      if (in.failed()) return value();
    }
    return in.list(*std::move(items));
  }
  if (given.positional.empty()) return in.fail("map needs a filter or attribute");
  const auto call = call_in(in, given, 0);
  if (!call) return value();
  if (!is_filter(call->name)) return in.fail("the filter " + in_quotes(call->name) + " is not supported");
  for (value& item : *items) {
    if (!in.step()) return value();
    item = apply_filter(in, call->name, item, call->given);
  }
  return in.failed() ? value() : in.list(*std::move(items));
}

// select and reject, selectattr and rejectattr: the items for which a test says `wanted`.
value picked(run& in, const value& of, const arguments& given, bool by_attribute, bool wanted) {
  if (!of.truth()) return in.list({});  // none too, as in Jinja
  const auto items = items_of(in, of);
  if (!items) return value();
  if (by_attribute && given.positional.empty()) return in.fail("selectattr and rejectattr need an attribute");
  const std::size_t test_index = by_attribute ? 1 : 0;
  std::optional<named_call> call;
  if (given.positional.size() > test_index) {
    call = call_in(in, given, test_index);
    if (!call) return value();
    if (!is_predicate(call->name)) return in.fail("the test " + in_quotes(call->name) + " is not supported");
  }
  std::vector<value> out;
  for (const value& item : *items) {
    if (!in.step()) return value();
    const value judged = by_attribute ? path_of(in, item, given.positional[0]) : item;
    const bool truth = call ? apply_predicate(in, call->name, judged, call->given) : judged.truth();
    if (in.failed()) return value();
    if (truth == wanted) out.push_back(item);
  }
  return in.list(std::move(out));
}
value select(run& in, const value& of, const arguments& given) { return picked(in, of, given, false, true); }
value reject(run& in, const value& of, const arguments& given) { return picked(in, of, given, false, false); }
value selectattr(run& in, const value& of, const arguments& given) { return picked(in, of, given, true, true); }
value rejectattr(run& in, const value& of, const arguments& given) { return picked(in, of, given, true, false); }

// What a value is ordered by: texts without regard to case, unless asked otherwise.
value sort_key(run& in, const value& of, bool case_sensitive) {
  const text* words = of.as_text();
  return words && !case_sensitive ? value(in_lower(in, *words)) : of;
}

struct keyed {
  value key, item;
};

std::optional<std::vector<keyed>> with_keys(run& in, std::vector<value> items, const value& attribute, bool case_sensitive) {
  std::vector<keyed> out;
  if (!in.make(items.size() * sizeof(keyed))) return std::nullopt;
  for (value& item : items) {
    if (!in.step()) return std::nullopt;
    value key = sort_key(in, attribute.is_none() ? item : path_of(in, item, attribute), case_sensitive);
    out.push_back({std::move(key), std::move(item)});
  }
  return in.failed() ? std::nullopt : std::optional(std::move(out));
}

value sorted(run& in, std::vector<keyed> items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const keyed& a, const keyed& b) {
    if (!in.step()) return false;
    return reverse ? order_of(in, b.key, a.key) < 0 : order_of(in, a.key, b.key) < 0;
  });
  if (in.failed()) return value();
  std::vector<value> out;
  for (keyed& each : items) out.push_back(std::move(each.item));
  return in.list(std::move(out));
}

value sort(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "sort", {"reverse", "case_sensitive", "attribute"})) return value();
  auto items = items_of(in, of);
  if (!items) return value();
  const value attribute = given.get(2, "attribute", value::nothing());
  auto keys = with_keys(in, *std::move(items), attribute, given.get(1, "case_sensitive", false).truth());
  if (keys && !attribute.is_none()) {  // as a list of one, since Jinja takes several: items that all lack it are equal
    for (keyed& each : *keys) each.key = in.list({each.key});
  }
  return keys ? sorted(in, *std::move(keys), given.get(0, "reverse", false).truth()) : value();
}

value unique(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "unique", {"case_sensitive", "attribute"})) return value();
  auto items = items_of(in, of);
  if (!items) return value();
  const auto keys =
      with_keys(in, *std::move(items), given.get(1, "attribute", value::nothing()), given.get(0, "case_sensitive", false).truth());
  if (!keys) return value();
  std::vector<const keyed*> kept;
  std::vector<value> out;
  for (const keyed& each : *keys) {
    if (!in.walk(each.key) || !in.step(kept.size())) return value();
    if (std::ranges::any_of(kept, [&](const keyed* before) { return equal(before->key, each.key); })) continue;
    kept.push_back(&each);
    out.push_back(each.item);
  }
  return in.list(std::move(out));
}

value extreme(run& in, const value& of, const arguments& given, bool largest) {
  if (!given.fit(in, largest ? "max" : "min", {"case_sensitive", "attribute"})) return value();
  auto items = items_of(in, of);
  if (!items) return value();
  const auto keys =
      with_keys(in, *std::move(items), given.get(1, "attribute", value::nothing()), given.get(0, "case_sensitive", false).truth());
  if (!keys) return value();
  if (keys->empty()) return value::missing("No aggregated item, sequence was empty.");
  const keyed* best = &keys->front();
  for (const keyed& each : *keys) {
    if (!in.step()) return value();
    const int order = &each == best ? 0 : order_of(in, each.key, best->key);
    if (largest ? order > 0 : order < 0) best = &each;
  }
  return in.failed() ? value() : best->item;
}
value min(run& in, const value& of, const arguments& given) { return extreme(in, of, given, false); }
value max(run& in, const value& of, const arguments& given) { return extreme(in, of, given, true); }

value sum(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "sum", {"attribute", "start"})) return value();
  const auto items = items_of(in, of);
  if (!items) return value();
  const value attribute = given.get(0, "attribute", value::nothing());
  value out = given.get(1, "start", value(std::int64_t{0}));
  for (const value& item : *items) {
    if (!in.step()) return value();
    out = apply_binary(in, "+", out, attribute.is_none() ? item : path_of(in, item, attribute));
  }
  return out;
}

value items(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "items", {})) return value();
  if (of.is_undefined()) return in.list({});
  const dictionary* entries = of.as_dict();
  if (!entries) return in.fail("items of " + std::string(of.type_name()) + ", which is no mapping");
  if (!in.make(entries->entries.size() * 4 * sizeof(value))) return value();
  std::vector<value> out;
  for (const auto& [key, held] : entries->entries) out.push_back(value::tuple({key, held}));
  return in.list(std::move(out));
}

value dictsort(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "dictsort", {"case_sensitive", "by", "reverse"})) return value();
  const dictionary* entries = of.as_dict();
  if (!entries) return in.fail("dictsort of " + std::string(of.type_name()) + ", which is no mapping");
  const value by = given.get(1, "by", "key");
  if (!equal(by, "key") && !equal(by, "value")) return in.fail("dictsort orders by \"key\" or \"value\"");
  auto pairs = items_of(in, items(in, of, {}));
  if (!pairs) return value();
  const std::int64_t index = equal(by, "key") ? 0 : 1;
  auto keys = with_keys(in, *std::move(pairs), value(index), given.get(0, "case_sensitive", false).truth());
  return keys ? sorted(in, *std::move(keys), given.get(2, "reverse", false).truth()) : value();
}

std::optional<text> indentation(run& in, const value& width) {
  if (const text* words = width.as_text()) return *words;
  const auto count = to_integer(in, width, "width");
  if (!count) return std::nullopt;
  if (*count > static_cast<std::int64_t>(limits::chat_width_max))
    return in.fail(errc::too_large, "an indent over " + std::to_string(limits::chat_width_max)), std::nullopt;
  return text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(*count, 0)), ' '));
}

value indent(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "indent", {"width", "first", "blank"})) return value();
  const auto blanks = indentation(in, given.get(0, "width", value(std::int64_t{4})));
  if (!blanks) return value();
  if (of.is_undefined()) return in.fail("indent of an undefined value");
  const text* words = to_words(in, of, "what to indent");
  const bool also_first = given.get(1, "first", false).truth(), also_blank = given.get(2, "blank", false).truth();
  if (!words || !in.make(words->size())) return value();
  text ended = *words;
  ended.append(text("\n"));  // as Jinja does, so that a line end at the end begins a line
  text out;
  const std::vector<text> lines = lines_of(in, ended, false);
  for (std::size_t index = 0; index < lines.size(); ++index) {
    const bool wanted = index == 0 ? also_first : also_blank || !lines[index].empty();
    if (!in.make(lines[index].size() + blanks->size() + 1)) return value();
    if (index > 0) out.append(text("\n"));
    if (wanted) out.append(*blanks);
    out.append(lines[index]);
  }
  return out;
}

value round(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "round", {"precision", "method"})) return value();
  const auto precision = to_integer(in, given.get(0, "precision", value(std::int64_t{0})), "precision");
  if (!precision || !of.is_number()) return in.fail("round of " + std::string(of.type_name()));
  const value method = given.get(1, "method", "common");
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(*precision, -300, 300)));
  const double scaled = of.as_double() * scale;
  if (equal(method, "ceil")) return std::ceil(scaled) / scale;
  if (equal(method, "floor")) return std::floor(scaled) / scale;
  if (!equal(method, "common")) return in.fail("round knows \"common\", \"ceil\" and \"floor\"");
  std::int64_t as_number;
  if (const std::int64_t* whole = of.as_index(as_number); whole && *precision >= 0) return *whole;
  if (*precision <= 0) return std::nearbyint(scaled) / scale;
  char room[400];
  const auto digits = static_cast<int>(std::min<std::int64_t>(*precision, 30));
  const auto end = std::to_chars(room, room + sizeof room, of.as_double(), std::chars_format::fixed, digits);
  if (end.ec != std::errc()) return of;
  double out = 0;
  std::from_chars(room, end.ptr, out);
  return out;
}

value absolute(run& in, const value& of, const arguments& given) {
  if (!given.fit(in, "abs", {})) return value();
  if (!of.is_number()) return in.fail("abs of " + std::string(of.type_name()));
  return of.as_double() < 0 ? apply_sign(in, "-", of) : apply_sign(in, "+", of);
}

struct named_filter {
  std::string_view name;
  filter apply;
};
constexpr std::array filters = {named_filter{"trim", trim},
                                named_filter{"length", length},
                                named_filter{"count", length},
                                named_filter{"upper", changed<in_upper>},
                                named_filter{"lower", changed<in_lower>},
                                named_filter{"title", changed<title_words>},
                                named_filter{"capitalize", changed<capitalized>},
                                named_filter{"replace", replace},
                                named_filter{"join", join},
                                named_filter{"default", fallback},
                                named_filter{"d", fallback},
                                named_filter{"first", first},
                                named_filter{"last", last},
                                named_filter{"list", list},
                                named_filter{"string", safe},
                                named_filter{"int", to_int},
                                named_filter{"float", to_float},
                                named_filter{"tojson", to_json},
                                named_filter{"safe", safe},
                                named_filter{"e", escape},
                                named_filter{"escape", escape},
                                named_filter{"map", map},
                                named_filter{"select", select},
                                named_filter{"reject", reject},
                                named_filter{"selectattr", selectattr},
                                named_filter{"rejectattr", rejectattr},
                                named_filter{"dictsort", dictsort},
                                named_filter{"items", items},
                                named_filter{"unique", unique},
                                named_filter{"sort", sort},
                                named_filter{"reverse", reverse},
                                named_filter{"indent", indent},
                                named_filter{"round", round},
                                named_filter{"abs", absolute},
                                named_filter{"min", min},
                                named_filter{"max", max},
                                named_filter{"sum", sum}};

}  // namespace

bool is_filter(std::string_view name) noexcept { return std::ranges::find(filters, name, &named_filter::name) != filters.end(); }

value apply_filter(run& in, std::string_view name, const value& of, const arguments& given) {
  const auto found = std::ranges::find(filters, name, &named_filter::name);
  return found->apply(in, of, given);
}

}  // namespace ebb::model::jinja
