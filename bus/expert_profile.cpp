#include "bus/expert_profile.hpp"
#include "bus/envelope.hpp"
#include "bus/field_reader.hpp"
#include "bus/field_writer.hpp"
#include "bus/fields.hpp"

namespace ebb::bus {

template <>
inline constexpr auto fields_of<expert_profile> = std::tuple{
    field{"model", &expert_profile::model},
    field{"size_bytes", &expert_profile::size_bytes},
    field{"layers", &expert_profile::layers},
    field{"experts", &expert_profile::experts},
    field{"heat", &expert_profile::heat, presence::required, any, range{0}},
};

bytes encode_profile(const expert_profile& what) {
  wire::writer out;
  out.map(1 + count_fields(what));
  out.text("v");
  out.whole(protocol_version);
  write_fields(out, what);
  return out.take();
}

result<expert_profile> decode_profile(bytes_view frame) {
  const auto parsed = parse_map(frame, "profile");
  if (!parsed) return fail(parsed.error());
  expert_profile out;
  field_reader reader("profile", std::get<wire::map>(parsed->root.held));
  read_version(reader);
  reader.read_all(out);
  if (reader.wrong()) return fail(*reader.wrong());
  const std::uint64_t wanted = std::uint64_t{out.layers} * out.experts;
  if (out.heat.size() != wanted) {
    return fail(errc::bad_value, "profile: heat must be a list of " + std::to_string(wanted) + " numbers, not of " + std::to_string(out.heat.size()));
  }
  return out;
}

}  // namespace ebb::bus
