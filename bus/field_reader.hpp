// bus/field_reader.hpp: takes the fields of a message out of a msgpack map, one by one, and keeps the first thing that is wrong.
#pragma once
#include "bus/field_value.hpp"
#include "bus/fields.hpp"
#include "bus/wire.hpp"
#include "config/result.hpp"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::bus {

class field_reader {
 public:
  // A command is taken word for word; a reply may come from a newer daemon.
  enum class strangers : bool { skipped, refused };

  // `owner` begins the error texts: what the message is, or empty while that is not known. `from` must outlive the reader.
  // `in_lists`: what becomes of unknown keys in maps within a list; those of the message itself are refuse_unknown_keys()'s.
  field_reader(std::string_view owner, const wire::map& from, strangers in_lists = strangers::skipped)
      : owner_(owner), from_(from), in_lists_(in_lists) {}

  void name_owner(std::string_view owner) { owner_ = owner; }

  // A field that is absent or wrong leaves `into` as it is.
  template <class T>
  void read(std::string_view key, T& into, presence when = presence::required, const range& allowed = any,
            const range& each = any) {
    if (const wire::value* found = find(key)) {
      read_found(key, *found, into, when, allowed, each);
    } else if (when != presence::optional) {
      refuse(errc::missing_key, std::string(key) + " is missing; it must be " + wanted_of(into, allowed) + or_nil(when));
    }
  }

  template <class Message>
  void read_all(Message& into) {
    for_each_field(into, [&](const auto& field, auto& owner) {
      read(field.key, owner.*field.member, field.when, field.allowed, field.each);
    });
  }

  // For what only the caller can judge. The first refusal stays.
  void refuse(errc code, std::string text);

  // Refuses keys that nothing asked for, and keys that occur twice. This replaces an earlier refusal: a mistyped key is most
  // often why another one is missing.
  void refuse_unknown_keys();

  const std::optional<error>& wrong() const noexcept { return wrong_; }

 private:
  template <class T>
  void read_found(std::string_view key, const wire::value& found, T& into, presence when, const range& allowed, const range&) {
    if (!take(found, allowed, into)) refuse_value(key, wanted_of(into, allowed), found, when);
  }

  template <class T>
  void read_found(std::string_view key, const wire::value& found, std::optional<T>& into, presence when, const range& allowed,
                  const range&) {
    T taken{};
    if (when == presence::required_or_nil && std::holds_alternative<std::monostate>(found.held)) {
      into.reset();
    } else if (take(found, allowed, taken)) {
      into = taken;
    } else {
      refuse_value(key, wanted(allowed, taken), found, when);
    }
  }

  template <class T>
  void read_found(std::string_view key, const wire::value& found, std::vector<T>& into, presence when, const range& allowed,
                  const range& each) {
    const auto* list = std::get_if<wire::array>(&found.held);
    if (list == nullptr || !holds(allowed, static_cast<double>(list->size()))) {
      return refuse_value(key, wanted_list(allowed), found, when);
    }
    std::vector<T> taken(list->size());
    for (std::size_t index = 0; index < list->size(); ++index) {
      if (!take_element(key, index, (*list)[index], each, taken[index])) return;
    }
    into = std::move(taken);
  }

  // An element is a single value, or a map with fields of its own.
  template <class T>
  bool take_element(std::string_view key, std::size_t index, const wire::value& element, const range& each, T& into) {
    if constexpr (requires { take(element, each, into); }) {
      if (take(element, each, into)) return true;
      refuse_value(indexed(key, index), wanted(each, into), element, presence::required);
      return false;
    } else {
      return read_nested(indexed(key, index), element, into);
    }
  }

  template <class Message>
  bool read_nested(const std::string& key, const wire::value& element, Message& into) {
    const auto* map = std::get_if<wire::map>(&element.held);
    if (map == nullptr) {
      refuse_value(key, "a map", element, presence::required);
      return false;
    }
    field_reader nested(owner_.empty() ? key : owner_ + ": " + key, *map, in_lists_);
    nested.read_all(into);
    if (in_lists_ == strangers::refused) nested.refuse_unknown_keys();
    if (nested.wrong_ && !wrong_) wrong_ = nested.wrong_;
    return !nested.wrong_;
  }

  template <class T>
  static std::string wanted_of(const T& type, const range& allowed) {
    return wanted(allowed, type);
  }
  template <class T>
  static std::string wanted_of(const std::optional<T>&, const range& allowed) {
    return wanted(allowed, T{});
  }
  template <class T>
  static std::string wanted_of(const std::vector<T>&, const range& allowed) {
    return wanted_list(allowed);
  }

  static std::string or_nil(presence when) { return when == presence::required_or_nil ? " or nil" : ""; }
  static std::string indexed(std::string_view key, std::size_t index);
  const wire::value* find(std::string_view key);
  void refuse_value(std::string_view key, const std::string& wanted, const wire::value& got, presence when);
  std::string with_owner(std::string text) const;

  std::string owner_;
  const wire::map& from_;
  strangers in_lists_;
  std::vector<std::string_view> known_;  // every key that was asked for
  std::optional<error> wrong_;
};

}  // namespace ebb::bus
