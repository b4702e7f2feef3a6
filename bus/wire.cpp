#include "bus/wire.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <charconv>
#include <exception>
#include <msgpack.hpp>
#include <optional>
#include <utility>

namespace ebb::bus::wire {
namespace {

// Builds the tree while the library walks over the bytes. Every visit returns whether to go on.
class tree_builder : public msgpack::null_visitor {
 public:
  tree_builder(std::size_t frame_bytes, std::string_view if_not_utf8)
      : values_possible_(std::min(frame_bytes, limits::message_values_max)), if_not_utf8_(if_not_utf8) {}

  bool visit_nil() { return place({}); }
  bool visit_boolean(bool what) { return place({what}); }
  bool visit_positive_integer(std::uint64_t what) { return place({what}); }
  bool visit_negative_integer(std::int64_t what) {
    return what < 0 ? place({what}) : place({static_cast<std::uint64_t>(what)});  // a signed encoding of a number >= 0
  }
  bool visit_float32(float what) { return place({static_cast<double>(what)}); }
  bool visit_float64(double what) { return place({what}); }
  bool visit_bin(const char* begin, std::uint32_t size) {
    return place({blob{as_bytes({size == 0 ? "" : begin, size})}});
  }
  bool visit_ext(const char*, std::uint32_t size) { return place({extension{size}}); }

  bool visit_str(const char* begin, std::uint32_t size) {
    const std::string_view text(size == 0 ? "" : begin, size);
    if (const auto at = first_invalid_utf8(text)) {
      return stop(errc::malformed, "a text is not UTF-8: its byte " + std::to_string(*at) + ", in " + in_quotes(text.substr(*at)) +
                                       std::string(if_not_utf8_));
    }
    return place({text});
  }

  bool start_array(std::uint32_t count) {
    array list;
    list.reserve(std::min<std::size_t>(count, values_possible_));  // what is announced need not come
    return open({std::move(list)});
  }
  bool start_map(std::uint32_t) { return open({map{}}); }
  bool end_array() { return close(); }
  bool end_map() { return close(); }
  bool start_map_key() { return expect_key(true); }
  bool start_map_value() { return expect_key(false); }

  void parse_error(std::size_t, std::size_t offset) {
    stop(errc::malformed, "byte " + std::to_string(offset) + " of the frame begins no msgpack value");
  }
  void insufficient_bytes(std::size_t, std::size_t) { stop(errc::malformed, "the frame ends in the middle of a value"); }

  bool complete() const noexcept { return !why_; }
  value take_root() { return std::move(root_); }
  error why() { return why_.value_or(error{errc::malformed, "the frame is not msgpack"}); }

 private:
  bool stop(errc code, std::string text) {
    if (!why_) why_ = error{code, std::move(text)};
    return false;
  }

  bool expect_key(bool yes) {
    key_comes_ = yes;
    return true;
  }

  // An open container is never moved: the vector that holds it grows only once it is closed.
  value& put(value what) {
    if (open_.empty()) return root_ = std::move(what);
    if (auto* list = std::get_if<array>(&open_.back()->held)) return list->emplace_back(std::move(what));
    return std::get<map>(open_.back()->held).back().content = std::move(what);
  }

  bool takes_key() const { return key_comes_ && !open_.empty() && std::holds_alternative<map>(open_.back()->held); }

  bool count_one() {
    if (++values_ <= limits::message_values_max) return true;
    return stop(errc::too_large, "the frame has more than " + std::to_string(limits::message_values_max) + " values");
  }

  bool place(value what) {
    if (!count_one()) return false;
    if (!takes_key()) {
      put(std::move(what));
      return true;
    }
    const auto* key = std::get_if<std::string_view>(&what.held);
    if (key == nullptr) return stop(errc::malformed, "a key of a map must be text, not " + describe(what));
    std::get<map>(open_.back()->held).push_back({*key, {}});
    return true;
  }

  bool open(value container) {
    if (takes_key()) return place(std::move(container));
    if (open_.size() == limits::message_depth_max) {
      return stop(errc::too_large, "the frame nests deeper than " + std::to_string(limits::message_depth_max) + " levels");
    }
    if (!count_one()) return false;
    open_.push_back(&put(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  value root_;
  std::vector<value*> open_;  // the containers around the next value, outermost first
  bool key_comes_ = false;
  std::size_t values_ = 0;
  std::size_t values_possible_;  // each takes a byte or more
  std::string_view if_not_utf8_;
  std::optional<error> why_;
};

// What msgpack::packer writes into.
struct sink {
  bytes& out;
  void write(const char* begin, std::size_t size) {
    const auto* from = reinterpret_cast<const std::byte*>(begin);
    out.insert(out.end(), from, from + size);
  }
};

template <class Pack>
void append(bytes& out, Pack pack) {
  sink into{out};
  msgpack::packer<sink> packer(into);
  pack(packer);
}

// The shortest that reads back the same, with a point, an exponent or a name, so that nobody takes it for a whole number.
std::string shown(double what) {
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), what).ptr;
  const std::string text(digits, end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

struct describer {
  std::string operator()(std::monostate) const { return "nil"; }
  std::string operator()(bool what) const { return what ? "true" : "false"; }
  std::string operator()(std::uint64_t what) const { return std::to_string(what); }
  std::string operator()(std::int64_t what) const { return std::to_string(what); }
  std::string operator()(double what) const { return shown(what); }
  std::string operator()(std::string_view what) const { return in_quotes(what); }
  std::string operator()(blob what) const { return std::to_string(what.content.size()) + " raw bytes"; }
  std::string operator()(extension what) const { return std::to_string(what.size_bytes) + " raw bytes"; }
  std::string operator()(const array& what) const { return "a list of " + std::to_string(what.size()); }
  std::string operator()(const map& what) const { return "a map of " + std::to_string(what.size()); }
};

}  // namespace

result<parsed> parse(bytes_view frame, std::string_view if_not_utf8) {
  tree_builder tree(frame.size(), if_not_utf8);
  std::size_t end = 0;
  try {
    const bool whole = msgpack::parse(reinterpret_cast<const char*>(frame.data()), frame.size(), end, tree);
    if (!whole || !tree.complete()) return fail(tree.why());
  } catch (const std::exception& thrown) {  // the library's own overflow checks, or no memory
    return fail(errc::malformed, std::string("the frame is not msgpack: ") + thrown.what());
  }
  return parsed{tree.take_root(), frame.size() - end};
}

std::string describe(const value& what) { return std::visit(describer{}, what.held); }

void writer::nil() {
  append(out_, [](auto& packer) { packer.pack_nil(); });
}
void writer::boolean(bool what) {
  append(out_, [&](auto& packer) { what ? packer.pack_true() : packer.pack_false(); });
}
void writer::whole(std::uint64_t what) {
  append(out_, [&](auto& packer) { packer.pack_uint64(what); });
}
void writer::real(double what) {
  append(out_, [&](auto& packer) { packer.pack_double(what); });
}
void writer::real(float what) {
  append(out_, [&](auto& packer) { packer.pack_float(what); });
}
void writer::text(std::string_view what) {
  if (first_invalid_utf8(what)) return text(repaired_utf8(what));
  const auto size = static_cast<std::uint32_t>(what.size());
  append(out_, [&](auto& packer) { packer.pack_str(size).pack_str_body(what.data(), size); });
}
void writer::raw(bytes_view what) {
  const auto size = static_cast<std::uint32_t>(what.size());
  append(out_, [&](auto& packer) { packer.pack_bin(size).pack_bin_body(as_text(what).data(), size); });
}
void writer::array(std::size_t count) {
  append(out_, [&](auto& packer) { packer.pack_array(static_cast<std::uint32_t>(count)); });
}
void writer::map(std::size_t count) {
  append(out_, [&](auto& packer) { packer.pack_map(static_cast<std::uint32_t>(count)); });
}

}  // namespace ebb::bus::wire
