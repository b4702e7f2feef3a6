#include "tools/ebb/streaming.hpp"
#include "config/utf8.hpp"
#include "tools/exit_code.hpp"
#include "bus/to_json.hpp"
#include <cstdio>
#include <iostream>

namespace ebb::tools {
namespace {

// Between two replies of one answer; a window of a large model on slow memory stays far below.
constexpr std::chrono::minutes reply_timeout{10};

void print_summary(const bus::done& summary) {
  std::fprintf(stderr, "%llu prompt tokens in %.1f ms, %llu tokens at %.1f tokens/s, largest gap %.1f ms, hit rate %.1f %%, ended by %s\n",
               static_cast<unsigned long long>(summary.prompt_tokens), summary.prompt_ms,
               static_cast<unsigned long long>(summary.generated_tokens), summary.tokens_per_s, summary.gap_ms_max, summary.hit_rate * 100,
               on_one_line(summary.finish).c_str());
  if (!summary.hash.empty()) std::fprintf(stderr, "hash of the logits %s\n", on_one_line(summary.hash).c_str());
}

void show(const bus::reply& reply) {
  if (const auto* token = std::get_if<bus::token>(&reply.body)) std::cout << token->text << std::flush;
  if (const auto* summary = std::get_if<bus::done>(&reply.body)) {
    std::cout << std::endl;
    print_summary(*summary);
  }
}

}  // namespace

int stream_answer(connection& through, const generate_options& options) {
  const bus::request asked{.id = fresh_id(), .text = false, .command = options.asked};
  if (auto sent = through.send(asked); !sent) return report_error(sent.error());
  for (;;) {
    auto reply = through.receive(reply_timeout);
    if (!reply) return report_error(reply.error());
    if (reply->id != asked.id) continue;
    if (options.json) std::cout << bus::to_line(to_json(*reply)) << std::endl;
    else show(*reply);
    if (const auto* why = std::get_if<error>(&reply->body)) return report_error(*why);
    if (reply->last()) return exit_ok;
  }
}

}  // namespace ebb::tools
