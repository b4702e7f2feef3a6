// actors/order_actor.hpp: makes orders out of `generate` requests, so that nobody waits while a long prompt becomes tokens.
//
//   message                  answer           errors
//   order, bus::generate     session_order    those of order_maker::make
//
// Owns:    nothing; order_maker is immutable.
// Thread:  scheduled; a prompt of a million characters takes about a second.
#pragma once
#include "actors/caf.hpp"
#include "actors/order_maker.hpp"

namespace ebb::actors {

using order_actor = caf::typed_actor<caf::replies_to<order_atom, bus::generate>::with<std::shared_ptr<const session_order>>>;

order_actor::behavior_type order_behavior(order_actor::pointer self, std::shared_ptr<const order_maker> orders);

}  // namespace ebb::actors
