#include "bus/ledger_state.hpp"
#include "bus/envelope.hpp"
#include "bus/field_reader.hpp"
#include "bus/field_writer.hpp"
#include "bus/fields.hpp"

namespace ebb::bus {

template <>
inline constexpr auto fields_of<card_state> = std::tuple{
    field{"reserve_mib", &card_state::reserve_mib, presence::optional},
    field{"together_mib", &card_state::together_mib, presence::optional},
    field{"yield_mib", &card_state::yield_mib, presence::optional},
};
template <>
inline constexpr auto fields_of<lease_state> = std::tuple{
    field{"lease_id", &lease_state::lease_id},
    field{"owner", &lease_state::owner},
    field{"device", &lease_state::device},
    field{"mib", &lease_state::mib},
    field{"ends_unix_ms", &lease_state::ends_unix_ms},
    field{"pid", &lease_state::pid},
    field{"pid_began", &lease_state::pid_began},
    field{"asked_by", &lease_state::asked_by, presence::optional},
};
template <>
inline constexpr auto fields_of<ledger_state> = std::tuple{
    field{"cards", &ledger_state::cards},
    field{"leases", &ledger_state::leases},
    field{"leases_given", &ledger_state::leases_given},
};

bytes encode_state(const ledger_state& what) {
  wire::writer out;
  out.map(1 + count_fields(what));
  out.text("v");
  out.whole(protocol_version);
  write_fields(out, what);
  return out.take();
}

result<ledger_state> decode_state(bytes_view frame) {
  const auto parsed = parse_map(frame, "state");
  if (!parsed) return fail(parsed.error());
  ledger_state out;
  field_reader reader("state", std::get<wire::map>(parsed->root.held));
  read_version(reader);
  reader.read_all(out);
  if (reader.wrong()) return fail(*reader.wrong());
  return out;
}

}  // namespace ebb::bus
