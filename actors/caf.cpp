#include "actors/caf.hpp"

namespace ebb::actors {
namespace {

constexpr caf::atom_value category = caf::atom("ebb");

}  // namespace

caf::error to_caf(const error& what) { return {static_cast<std::uint8_t>(what.code), category, caf::make_message(what.text)}; }

error from_caf(const caf::error& what) {
  if (what.category() == category) {
    const bool has_text = what.context().match_element<std::string>(0);
    return {static_cast<errc>(what.code()), has_text ? what.context().get_as<std::string>(0) : std::string()};
  }
  if (what == caf::sec::request_timeout) return {errc::timed_out, "a part of the daemon did not answer in time"};
  if (what == caf::sec::request_receiver_down) return {errc::card_lost, "a part of the daemon has ended; restart it"};
  return {errc::internal, "a part of the daemon failed: " + caf::to_string(what)};
}

}  // namespace ebb::actors
