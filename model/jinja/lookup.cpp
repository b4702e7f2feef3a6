#include "model/jinja/lookup.hpp"
#include "config/utf8.hpp"
#include "model/jinja/letters.hpp"
#include "model/jinja/methods.hpp"
#include <algorithm>
#include <charconv>

namespace ebb::model::jinja {
namespace {

value absent(const value& object, const std::string& name) {
  return value::missing(std::string(object.type_name()) + " object has no item " + in_quotes(name));
}

value loop_attribute(const loop_state& loop, const std::string& name) {
  const auto count = static_cast<std::int64_t>(loop.items->size()), index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return static_cast<std::int64_t>(loop.depth);
  if (name == "depth0") return static_cast<std::int64_t>(loop.depth) - 1;
  if (name == "previtem") return index == 0 ? value::missing("there is no previous item") : (*loop.items)[loop.index - 1];
  if (name == "nextitem") return index + 1 == count ? value::missing("there is no next item") : (*loop.items)[loop.index + 1];
  return value::missing("loop has no " + in_quotes(name));
}

value bind(run& in, const value& object, const std::string& name) {
  callable method;
  method.name = name;
  method.receiver = std::make_shared<const value>(object);
  return in.make(sizeof(callable)) ? in.checked(value(std::move(method))) : value();
}

// Python's index into `count` items; none if it is outside.
std::optional<std::size_t> index_into(std::size_t count, std::int64_t index) noexcept {
  const auto n = static_cast<std::int64_t>(count);
  if (index < 0) index += n;
  return index < 0 || index >= n ? std::nullopt : std::optional(static_cast<std::size_t>(index));
}

// The indices that Python's slice picks.
std::optional<std::vector<std::size_t>> picked(run& in, std::size_t count, const value& start, const value& stop, const value& step) {
  const auto n = static_cast<std::int64_t>(count);
  const auto bound = [&](const value& given, std::int64_t fallback, std::int64_t low, std::int64_t high) -> std::int64_t {
    if (given.is_none() || given.is_undefined()) return fallback;
    const std::int64_t at = to_integer(in, given, "a slice's bound").value_or(0);
    return std::clamp(at < 0 ? at + n : at, low, high);
  };
  const std::int64_t by = step.is_none() || step.is_undefined() ? 1 : to_integer(in, step, "a slice's step").value_or(1);
  if (by == 0) return in.fail("a slice's step cannot be 0"), std::nullopt;
  const bool up = by > 0;
  const std::int64_t first = bound(start, up ? 0 : n - 1, up ? 0 : -1, up ? n : n - 1);
  const std::int64_t last = bound(stop, up ? n : -1, up ? 0 : -1, up ? n : n - 1);
  if (in.failed()) return std::nullopt;
  std::vector<std::size_t> out;
  if (!in.make(count * sizeof(std::size_t))) return std::nullopt;
  for (std::int64_t at = first; up ? at < last : at > last;) {
    out.push_back(static_cast<std::size_t>(at));
    if (up ? by >= last - at : by <= last - at) break;  // the next would be past the end, and may be past the numbers
    at += by;
  }
  return out;
}

value slice_text(run& in, const text& words, const value& start, const value& stop, const value& step) {
  if (!in.make(words.size() * (1 + sizeof(std::size_t)))) return value();
  const std::vector<std::size_t> begins = character_begins(words.view());
  const auto indices = picked(in, begins.size() - 1, start, stop, step);
  if (!indices) return value();
  if (indices->empty()) return text();
  const std::int64_t room = 1;
  const bool in_order = step.is_none() || step.is_undefined() || equal(step, value(room));
  if (in_order) return words.cut(begins[indices->front()], begins[indices->back() + 1] - begins[indices->front()]);
  text out;
  for (const std::size_t index : *indices) out.append(words.cut(begins[index], begins[index + 1] - begins[index]));
  return out;
}

}  // namespace

bool has_method(const value& object, std::string_view name) noexcept {
  if (object.as_text()) return is_text_method(name);
  if (object.as_dict()) return is_dict_method(name);
  if (object.as_sequence()) return is_sequence_method(name);
  return object.get<loop_state*>() && (name == "cycle" || name == "changed");
}

value attribute_of(run& in, const value& object, const std::string& name) {
  if (const undefined* nothing = object.get<undefined>())
    return in.fail("attribute " + in_quotes(name) + " of an undefined value: " + nothing->name);
  if (has_method(object, name)) return bind(in, object, name);
  if (const auto* loop = object.get<loop_state*>()) return loop_attribute(**loop, name);
  if (const auto* space = object.get<name_space*>()) {
    in.step((*space)->members.size());
    const auto found = std::ranges::find((*space)->members, name, &std::pair<std::string, value>::first);
    return found == (*space)->members.end() ? absent(object, name) : found->second;
  }
  if (const dictionary* entries = object.as_dict()) {
    in.step(entries->entries.size() / 4);
    const value* held = find_key(*entries, std::string_view(name));
    return held ? *held : absent(object, name);
  }
  return absent(object, name);
}

value item_of(run& in, const value& object, const value& key) {
  if (const undefined* nothing = object.get<undefined>()) return in.fail("an item of an undefined value: " + nothing->name);
  const text* name = key.as_text();
  if (const dictionary* entries = object.as_dict()) {
    if (!in.step(entries->entries.size() / 4) || !in.walk(key)) return value();
    const value* held = find_key(*entries, key);
    if (held) return *held;
  }
  std::int64_t room;
  if (const std::int64_t* index = key.as_index(room)) {
    if (const sequence* items = object.as_sequence()) {
      const auto at = index_into(items->items.size(), *index);
      return at ? items->items[*at] : absent(object, std::to_string(*index));
    }
    if (const text* words = object.as_text()) {
      if (!in.make(words->size() * sizeof(std::size_t))) return value();
      const std::vector<std::size_t> begins = character_begins(words->view());
      const auto at = index_into(begins.size() - 1, *index);
      return at ? value(words->cut(begins[*at], begins[*at + 1] - begins[*at])) : absent(object, std::to_string(*index));
    }
  }
  if (name) return attribute_of(in, object, name->bytes());
  return absent(object, repr(key.depth() == 0 ? key : value()));
}

value slice_of(run& in, const value& object, const value& start, const value& stop, const value& step) {
  if (const text* words = object.as_text()) return slice_text(in, *words, start, stop, step);
  const sequence* items = object.as_sequence();
  if (const undefined* nothing = object.get<undefined>()) return in.fail("a slice of an undefined value: " + nothing->name);
  if (!items) return in.fail("a slice of " + std::string(object.type_name()));
  const auto indices = picked(in, items->items.size(), start, stop, step);
  if (!indices) return value();
  std::vector<value> out;
  for (const std::size_t index : *indices) out.push_back(items->items[index]);
  return items->is_tuple ? in.tuple(std::move(out)) : in.list(std::move(out));
}

value path_of(run& in, const value& object, const value& path) {
  const text* words = path.as_text();
  if (!words) return item_of(in, object, path);
  value at = object;
  std::string_view rest = words->view();
  while (!in.failed()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    std::int64_t index;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size() && is_digit(part[0]);
    in.step();
    at = is_index ? item_of(in, at, value(index)) : item_of(in, at, value(part));
    if (dot == rest.size()) break;
    rest.remove_prefix(dot + 1);
  }
  return at;
}

std::optional<std::vector<value>> items_of(run& in, const value& of) {
  std::vector<value> out;
  if (of.is_undefined()) return out;
  if (const sequence* items = of.as_sequence()) {
    if (!in.make(items->items.size() * sizeof(value))) return std::nullopt;
    return items->items;
  }
  if (const dictionary* entries = of.as_dict()) {
    if (!in.make(entries->entries.size() * sizeof(value))) return std::nullopt;
    for (const auto& [key, held] : entries->entries) out.push_back(key);
    return out;
  }
  if (const text* words = of.as_text()) {
    if (!in.make(words->size() * (sizeof(value) + sizeof(text)))) return std::nullopt;
    const std::vector<std::size_t> begins = character_begins(words->view());
    for (std::size_t index = 0; index + 1 < begins.size(); ++index)
      out.push_back(words->cut(begins[index], begins[index + 1] - begins[index]));
    return out;
  }
  in.fail(std::string(of.type_name()) + " cannot be looped over");
  return std::nullopt;
}

std::optional<std::int64_t> length_of(run& in, const value& of) {
  if (of.is_undefined()) return 0;
  if (const sequence* items = of.as_sequence()) return static_cast<std::int64_t>(items->items.size());
  if (const dictionary* entries = of.as_dict()) return static_cast<std::int64_t>(entries->entries.size());
  if (const text* words = of.as_text())
    return in.look(words->size()) ? std::optional(static_cast<std::int64_t>(length_of(words->view()))) : std::nullopt;
  in.fail(std::string(of.type_name()) + " has no length");
  return std::nullopt;
}

}  // namespace ebb::model::jinja
