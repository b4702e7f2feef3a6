// actors/card_handle.hpp: what a card and the residency actor may be sent; apart from both, since each knows the other.
#pragma once
#include "actors/caf.hpp"

namespace ebb::actors {

using card_actor = caf::typed_actor<
    caf::replies_to<load_atom>::with<bus::card_info>,
    caf::replies_to<open_atom, session_opening>::with<void>,
    caf::reacts_to<close_atom, session_id, std::uint32_t>,
    caf::replies_to<cancel_atom, session_id>::with<picked_token>,
    caf::replies_to<run_atom, window>::with<window_result>,
    caf::reacts_to<next_atom>,
    caf::reacts_to<halt_atom>,
    caf::replies_to<resize_atom, resize_goal>::with<resize_outcome>,
    caf::reacts_to<step_atom>,
    caf::replies_to<plan_atom, resize_goal>::with<bus::card_plan>,
    caf::reacts_to<adopt_atom, std::uint64_t>,
    caf::replies_to<info_atom>::with<bus::card_info>,
    caf::replies_to<size_atom>::with<cache_size>,
    caf::replies_to<heat_atom>::with<stage_heat>,
    caf::replies_to<map_atom>::with<bus::expert_map>>;

// Told of every change; answers a resident stage with `adopt`.
using residency_actor = caf::typed_actor<caf::reacts_to<changed_atom, card_actor, residency_change>>;

}  // namespace ebb::actors
