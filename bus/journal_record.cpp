#include "bus/journal_record.hpp"
#include "bus/crc32.hpp"
#include "bus/wire.hpp"
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace ebb::bus {
namespace {

constexpr std::string_view header_kind = "ebb-journal";
constexpr std::string_view in_kind = "in";
constexpr std::string_view out_kind = "out";
constexpr std::string_view gone_kind = "gone";
constexpr std::string_view lost_kind = "lost";
constexpr std::size_t number_bytes = 4;

using number = std::array<std::byte, number_bytes>;

number little_endian(std::uint32_t what) noexcept {
  number out{};
  for (std::size_t index = 0; index < number_bytes; ++index) out[index] = static_cast<std::byte>(what >> (8 * index));
  return out;
}

std::uint32_t from_little_endian(bytes_view from) noexcept {
  std::uint32_t out = 0;
  for (std::size_t index = 0; index < number_bytes; ++index) out |= std::to_integer<std::uint32_t>(from[index]) << (8 * index);
  return out;
}

// --- writing

void put_time(wire::writer& out, std::chrono::nanoseconds what) { out.whole(static_cast<std::uint64_t>(what.count())); }

void begin_stamped(wire::writer& out, std::size_t more, std::string_view kind, const journal_stamp& stamp) {
  out.array(3 + more);
  out.text(kind);
  out.whole(stamp.sequence);
  put_time(out, stamp.at);
}

void put_payload(wire::writer& out, const journal_header& what) {
  out.array(5);
  out.text(header_kind);
  out.whole(journal_format);
  out.text(what.version);
  put_time(out, what.started);
  out.map(what.about.size());
  for (const auto& [key, value] : what.about) {
    out.text(key);
    out.text(value);
  }
}

void put_payload(wire::writer& out, const journal_message& what) {
  begin_stamped(out, 2, what.direction == journal_direction::in ? in_kind : out_kind, what.stamp);
  out.raw(as_bytes(what.client.routing_id));
  out.raw(what.frame);
}

void put_payload(wire::writer& out, const journal_gone& what) {
  begin_stamped(out, 1, gone_kind, what.stamp);
  out.raw(as_bytes(what.client.routing_id));
}

void put_payload(wire::writer& out, const journal_lost& what) {
  begin_stamped(out, 1, lost_kind, what.stamp);
  out.whole(what.count);
}

// --- reading

tl::unexpected<error> corrupt(std::string text) { return fail(errc::corrupt, std::move(text)); }

// Takes the elements of a record one after the other, and keeps whether all were of their type.
class element_reader {
 public:
  explicit element_reader(const wire::array& from) : from_(from) {}

  std::string text() { return std::string(take<std::string_view>().value_or("")); }
  std::uint64_t whole() { return take<std::uint64_t>().value_or(0); }
  bytes_view raw() { return take<wire::blob>().value_or(wire::blob{}).content; }
  client_id client() { return {std::string(as_text(raw()))}; }
  bytes frame() {
    const bytes_view content = raw();
    return {content.begin(), content.end()};
  }

  // A time beyond the signed range is centuries away: no clock of ours says so.
  std::chrono::nanoseconds time() {
    const auto count = static_cast<std::int64_t>(whole());
    good_ = good_ && count >= 0;
    return std::chrono::nanoseconds(count);
  }

  journal_stamp stamp() {
    const std::uint64_t sequence = whole();
    return {sequence, time()};
  }

  std::map<std::string, std::string> texts() {
    std::map<std::string, std::string> out;
    const wire::value* next = next_element();
    const auto* fields = next != nullptr ? std::get_if<wire::map>(&next->held) : nullptr;
    good_ = good_ && fields != nullptr;
    if (fields == nullptr) return out;
    for (const wire::field& each : *fields) {
      const auto* value = std::get_if<std::string_view>(&each.content.held);
      good_ = good_ && value != nullptr && out.emplace(each.key, value != nullptr ? *value : "").second;
    }
    return out;
  }

  // Whether every element was there, and nothing else.
  bool good() const noexcept { return good_ && next_ == from_.size(); }

 private:
  const wire::value* next_element() { return next_ < from_.size() ? &from_[next_++] : nullptr; }

  template <class T>
  std::optional<T> take() {
    const wire::value* next = next_element();
    const T* held = next != nullptr ? std::get_if<T>(&next->held) : nullptr;
    good_ = good_ && held != nullptr;
    return held != nullptr ? std::optional<T>(*held) : std::nullopt;
  }

  const wire::array& from_;
  std::size_t next_ = 0;
  bool good_ = true;
};

result<journal_record> decode_header(element_reader& from) {
  if (const std::uint64_t format = from.whole(); format != journal_format) {
    return fail(errc::unsupported_version, "the journal has format " + std::to_string(format) + ", and this version reads format " +
                                               std::to_string(journal_format) + "; read it with the ebb that wrote it");
  }
  journal_header header;
  header.version = from.text();
  header.started = from.time();
  header.about = from.texts();
  return header;
}

result<journal_record> decode_message(element_reader& from, journal_direction direction) {
  journal_message message;
  message.stamp = from.stamp();
  message.direction = direction;
  message.client = from.client();
  message.frame = from.frame();
  return message;
}

result<journal_record> decode_kind(std::string_view kind, element_reader& from) {
  if (kind == header_kind) return decode_header(from);
  if (kind == in_kind) return decode_message(from, journal_direction::in);
  if (kind == out_kind) return decode_message(from, journal_direction::out);
  if (kind == gone_kind) {
    const journal_stamp stamp = from.stamp();
    return journal_gone{stamp, from.client()};
  }
  if (kind == lost_kind) {
    const journal_stamp stamp = from.stamp();
    return journal_lost{stamp, from.whole()};
  }
  return corrupt("a record cannot be of the kind " + wire::describe({kind}));
}

}  // namespace

bytes encode_journal_record(const journal_record& record) {
  wire::writer out;
  std::visit([&](const auto& what) { put_payload(out, what); }, record);
  const bytes payload = out.take();
  const number length = little_endian(static_cast<std::uint32_t>(payload.size()));
  const number sum = little_endian(journal_sum(payload));
  bytes whole;
  whole.reserve(journal_prefix_bytes + payload.size());
  whole.insert(whole.end(), length.begin(), length.end());
  whole.insert(whole.end(), sum.begin(), sum.end());
  whole.insert(whole.end(), payload.begin(), payload.end());
  return whole;
}

journal_prefix decode_journal_prefix(bytes_view prefix) noexcept {
  return {from_little_endian(prefix.first(number_bytes)), from_little_endian(prefix.subspan(number_bytes))};
}

std::uint32_t journal_sum(bytes_view payload) noexcept {
  return crc32(payload, crc32(little_endian(static_cast<std::uint32_t>(payload.size()))));
}

result<journal_record> decode_journal_payload(bytes_view payload) {
  const auto parsed = wire::parse(payload);
  if (!parsed) return corrupt("a record is no msgpack array: " + parsed.error().text);
  const auto* elements = std::get_if<wire::array>(&parsed->root.held);
  if (elements == nullptr) return corrupt("a record must be a msgpack array, not " + wire::describe(parsed->root));
  if (parsed->trailing_bytes != 0) return corrupt("after a record's array come " + std::to_string(parsed->trailing_bytes) + " bytes");
  element_reader from(*elements);
  const std::string kind = from.text();
  auto record = decode_kind(kind, from);
  if (record && !from.good()) return corrupt("a record of the kind " + wire::describe({std::string_view(kind)}) + " has not its elements");
  return record;
}

}  // namespace ebb::bus
