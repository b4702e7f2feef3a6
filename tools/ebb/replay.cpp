// tools/ebb/replay.cpp: `ebb replay`: the differences, one a line, and what was compared.
#include "tools/replay.hpp"
#include "bus/curve_keys.hpp"
#include "config/utf8.hpp"
#include "tools/ebb/commands.hpp"
#include "tools/exit_code.hpp"
#include "tools/live_target.hpp"
#include "bus/to_json.hpp"
#include "tools/virtual_engine.hpp"
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace ebb::tools {
namespace {

// A client's id is bytes of no meaning.
std::string in_hex(const std::string& bytes) {
  std::string out;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    out += digits;
  }
  return out;
}

target_factory at_daemon(const std::string& endpoint, const std::optional<curve_client_keys>& keys) {
  return [=](const bus::journal_header&, frame_sink sink) -> result<std::unique_ptr<replay_target>> {
    return std::unique_ptr<replay_target>(std::make_unique<live_target>(endpoint, keys, std::move(sink)));
  };
}

result<replay_report> replayed(const replay_options& options) {
  if (options.endpoint.empty()) {
    const char* isa = std::getenv("EBB_ISA");
    return replay(options.journal, in_virtual_time(options.model, isa == nullptr ? "" : isa));
  }
  std::optional<curve_client_keys> keys;
  if (!options.keys.empty()) {
    auto loaded = bus::load_client_keys(options.keys);
    if (!loaded) return fail(errc::bad_value, loaded.error().text);
    keys = std::move(*loaded);
  }
  return replay(options.journal, at_daemon(options.endpoint, keys));
}

void print(const replay_difference& each) {
  std::printf("record %llu, client %s, id %s, %s: recorded %s, replayed %s\n", static_cast<unsigned long long>(each.record),
              in_hex(each.client.routing_id).c_str(), on_one_line(bus::to_string(each.id)).c_str(), on_one_line(each.field).c_str(),
              on_one_line(each.recorded).c_str(), on_one_line(each.replayed).c_str());
}

nlohmann::ordered_json to_json(const replay_difference& each) {
  return {{"record", each.record}, {"client", in_hex(each.client.routing_id)}, {"id", bus::to_string(each.id)},
          {"field", each.field},   {"recorded", each.recorded},                {"replayed", each.replayed}};
}

nlohmann::ordered_json to_json(const replay_report& report) {
  auto differences = nlohmann::ordered_json::array();
  for (const auto& each : report.differences) differences.push_back(to_json(each));
  nlohmann::ordered_json out{{"runs", report.runs},
                             {"requests", report.requests},
                             {"replies", report.replies},
                             {"passed_over", report.passed_over},
                             {"lost", report.lost},
                             {"differences_all", report.differences_all},
                             {"differences", std::move(differences)}};
  if (report.torn) out["torn"] = report.torn->text;
  return out;
}

void print(const replay_report& report) {
  for (const auto& each : report.differences) print(each);
  if (report.differences_all > report.differences.size()) {
    std::printf("... and %llu differences more\n", static_cast<unsigned long long>(report.differences_all - report.differences.size()));
  }
  if (report.torn) std::printf("replayed up to here: %s\n", on_one_line(report.torn->text).c_str());
  if (report.lost > 0) std::printf("%llu messages are missing in the journal: differences may come from that\n", static_cast<unsigned long long>(report.lost));
  if (report.passed_over > 0) {
    std::printf("%llu requests came while the recorded daemon had no model, and were passed over\n", static_cast<unsigned long long>(report.passed_over));
  }
  std::printf("%llu requests, %llu replies compared, %llu differences\n", static_cast<unsigned long long>(report.requests),
              static_cast<unsigned long long>(report.replies), static_cast<unsigned long long>(report.differences_all));
}

}  // namespace

int replay(const replay_options& options) {
  const auto report = replayed(options);
  if (!report) {
    const int code = report_error(report.error());
    return options.endpoint.empty() || code == exit_usage ? code : exit_no_daemon;
  }
  if (options.json) std::cout << bus::to_line(to_json(*report)) << std::endl;
  else print(*report);
  return report->differences_all == 0 ? exit_ok : exit_failed;
}

}  // namespace ebb::tools
