#include "bus/http/all_routes.hpp"

namespace ebb::bus::http {

routes all_routes(context& of) {
  routes all;
  add_vram_routes(all, of);
  add_lease_routes(all, of);
  add_answer_routes(all, of);
  add_model_routes(all, of);
  add_state_routes(all, of);
  add_event_routes(all, of);
  add_token_routes(all, of);
  add_metrics_routes(all, of);
  add_config_routes(all, of);
  add_page_routes(all);
  return all;
}

}  // namespace ebb::bus::http
