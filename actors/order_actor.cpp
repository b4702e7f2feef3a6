#include "actors/order_actor.hpp"

namespace ebb::actors {

order_actor::behavior_type order_behavior(order_actor::pointer, std::shared_ptr<const order_maker> orders) {
  return {
      [orders = std::move(orders)](order_atom, const bus::generate& asked) { return to_caf(orders->make(asked)); },
  };
}

}  // namespace ebb::actors
