// bus/http/all_routes.hpp: the functions that add routes, one a file. A new one is declared here and called in all_routes.cpp.
#pragma once
#include "bus/http/context.hpp"
#include "bus/http/routes.hpp"

namespace ebb::bus::http {

// The context must outlive the routes.
void add_vram_routes(routes& into, context& of);    // /v1/vram, /v1/vram/plan
void add_lease_routes(routes& into, context& of);   // /v1/vram/leases
void add_answer_routes(routes& into, context& of);  // /v1/chat/completions, /v1/completions
void add_model_routes(routes& into, context& of);   // /v1/models
void add_state_routes(routes& into, context& of);   // /health, /v1/status, /v1/cards, /v1/experts
void add_event_routes(routes& into, context& of);   // /v1/events
void add_token_routes(routes& into, context& of);   // /tokenize, /detokenize
void add_metrics_routes(routes& into, context& of); // /metrics
void add_config_routes(routes& into, context& of);  // /v1/config
void add_page_routes(routes& into);                 // /, /page/...

routes all_routes(context& of);

}  // namespace ebb::bus::http
