// bus/http/lease_routes.cpp: /v1/vram/leases. A lease outlives the connection that asked for it: its time and its process end it.
//
// While it is waited for it is its client's: who leaves before the answer leaves no lease behind, as on the bus.
#include "bus/http/all_routes.hpp"
#include "bus/http/json_response.hpp"
#include "bus/http/lease_request.hpp"
#include <algorithm>

namespace ebb::bus::http {
namespace {

using json = nlohmann::ordered_json;

json shown(const lease_info& each) {
  json out = to_json(each);
  out["gpu"] = each.device;
  return out;
}

response list(context& of, const request& asked) {
  call daemon(of.port, asked.peer);
  lease wanted;
  wanted.action = "list";
  const auto all = daemon.ask<lease_report>(wanted, limits::http_answer_timeout);
  if (!all) return response_of(problem_of(all.error(), asked_for::memory));
  json leases = json::array();
  for (const lease_info& each : all->leases) leases.push_back(shown(each));
  return json_response({{"leases", std::move(leases)}});
}

bool is_held(context& of, std::uint64_t lease_id) {
  call daemon(of.port, nullptr);
  lease wanted;
  wanted.action = "list";
  const auto all = daemon.ask<lease_report>(wanted, limits::http_answer_timeout);
  if (!all) return true;  // nothing says that it has ended
  return std::any_of(all->leases.begin(), all->leases.end(), [&](const lease_info& each) { return each.lease_id == lease_id; });
}

// The use of a key by one request.
class key_use {
 public:
  key_use(context& of, const std::string& key, const lease& wanted)
      : of_(of), key_(key), allowed_(key.empty() || of.keys.begin(key, wanted, [&of](std::uint64_t id) { return is_held(of, id); })) {}
  ~key_use() {
    if (allowed_ && !key_.empty()) of_.keys.end(key_, lease_id_);
  }
  key_use(const key_use&) = delete;
  key_use& operator=(const key_use&) = delete;

  bool allowed() const noexcept { return allowed_; }
  void came(std::uint64_t lease_id) { lease_id_ = lease_id; }

 private:
  context& of_;
  const std::string key_;
  const bool allowed_;
  std::optional<std::uint64_t> lease_id_;
};

response key_is_taken() {
  return response_of({422, "idempotency_key_reused", "this idempotency key stands for a lease that was asked for with another body; choose a new key for a new lease", "idempotency_key"});
}

// A lease of before a restart, whose body is not known any more: whether it can be what is asked for now.
bool can_be(const lease_info& held, const lease& wanted) {
  return held.mib <= *wanted.mib && held.mib >= wanted.min_mib.value_or(*wanted.mib) && held.pid == wanted.pid.value_or(0);
}

json cards_of(context& of, const request& asked, std::uint32_t device) {
  call daemon(of.port, asked.peer);
  const auto now = daemon.ask<cards_report>(cards{}, limits::http_answer_timeout);
  json out = json::array();
  for (std::size_t i = 0; now && i < now->cards.size(); ++i) {
    if (now->cards[i].report.device == device) out.push_back(to_json(now->cards[i].report));
  }
  return out;
}

response acquire(context& of, const request& asked) {
  auto wanted = parse_acquire(asked.body, asked.header("idempotency-key"));
  if (!wanted) return response_of(wanted.error());
  key_use key(of, wanted->idempotency_key, wanted->wanted);
  if (!key.allowed()) return key_is_taken();
  call daemon(of.port, asked.peer);
  const auto patience = limits::http_answer_timeout + std::chrono::seconds(wanted->wanted.wait_s.value_or(0));
  request_id id{std::uint64_t{1}};
  if (!wanted->idempotency_key.empty()) id.value = std::move(wanted->idempotency_key);
  daemon.submit(id, wanted->wanted);
  const auto answer = daemon.next(patience);
  if (!answer) return response_of(problem_of(answer.error(), asked_for::memory));
  if (const auto* why = std::get_if<error>(&answer->body)) return response_of(problem_of(*why, asked_for::memory));
  const auto& given = std::get<lease_report>(answer->body);
  const bool known_before = given.cards.empty();  // the ledger has it already and changed nothing
  if (known_before && !can_be(given.leases.at(0), wanted->wanted)) return key_is_taken();
  key.came(given.leases.at(0).lease_id);
  json out = shown(given.leases.at(0));
  out["cards"] = known_before ? cards_of(of, asked, given.leases[0].device) : json::array();
  for (const card_report& each : given.cards) out["cards"].push_back(to_json(each));
  if (!given.warning.empty()) out["warning"] = given.warning;
  response made = json_response(out, known_before ? 200 : 201);
  made.headers.emplace_back("Location", "/v1/vram/leases/" + std::to_string(given.leases[0].lease_id));
  return made;
}

// Renew and release, of the lease in the path.
response change(context& of, const request& asked, outcome<lease> wanted) {
  if (!wanted) return response_of(wanted.error());
  const auto id = parse_lease_id(asked.parts.at(0));
  if (!id) return response_of(id.error());
  wanted->lease_id = *id;
  call daemon(of.port, asked.peer);
  const auto answer = daemon.ask<lease_report>(*wanted, limits::http_answer_timeout);
  if (!answer) return response_of(problem_of(answer.error(), asked_for::memory));
  return json_response(shown(answer->leases.at(0)));
}

response renew(context& of, const request& asked) { return change(of, asked, parse_renew(asked.body)); }

response release(context& of, const request& asked) {
  lease wanted;
  wanted.action = "release";
  return change(of, asked, std::move(wanted));
}

}  // namespace

void add_lease_routes(routes& into, context& of) {
  into.add("GET", "/v1/vram/leases", [&of](const request& asked) { return list(of, asked); });
  into.add("POST", "/v1/vram/leases", [&of](const request& asked) { return acquire(of, asked); });
  into.add("POST", "/v1/vram/leases/{}", [&of](const request& asked) { return renew(of, asked); });
  into.add("PATCH", "/v1/vram/leases/{}", [&of](const request& asked) { return renew(of, asked); });
  into.add("DELETE", "/v1/vram/leases/{}", [&of](const request& asked) { return release(of, asked); });
}

}  // namespace ebb::bus::http
