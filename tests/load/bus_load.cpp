// tests/load/bus_load.cpp: many clients with many commands under way, while an answer streams: how fast, how late, and is any lost?
//
//   bus_load [--commands N] [--clients N] [--pipeline N] [--idle]
//
// A daemon in this process on a socket of its own, with the demo model on two host cards; each client is a thread with a socket. Nine of
// ten commands are `status`, one is `vram`, which resizes card 0 for real. Prints a table; exit code 1 if a command was not answered
// exactly once, or the answer that streamed meanwhile is not the one that streams alone.
#include "bus/client_socket.hpp"
#include "bus/codec.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include "tools/connection.hpp"
#include "tools/daemon.hpp"
#include "tools/process_memory.hpp"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <unordered_map>

namespace {

using namespace ebb;
using clock_type = std::chrono::steady_clock;

struct load_options {
  std::uint64_t commands = 100'000;
  unsigned clients = 64;
  unsigned pipeline = 8;
  bool idle = false;
};

struct tally {
  std::vector<double> status_us, vram_us;
  std::uint64_t errors = 0;
  std::uint64_t unexpected = 0;  // a reply to nothing, or a second one
  std::uint64_t missing = 0;
};

bus::command command_of(std::uint64_t number) {
  if (number % 10 != 0) return bus::status{};
  return bus::vram{static_cast<std::uint32_t>(number / 10 % 6), 0};
}

// Keeps `pipeline` commands under way until `count` were answered.
tally run_client(const std::string& endpoint, std::uint64_t count, unsigned pipeline) {
  tally out;
  auto socket = bus::client_socket::connect(endpoint, std::chrono::seconds(30));
  if (!socket) {
    out.missing = count;
    return out;
  }
  std::unordered_map<std::uint64_t, clock_type::time_point> under_way;
  std::uint64_t sent = 0;
  for (std::uint64_t answered = 0; answered < count;) {
    while (sent < count && under_way.size() < pipeline) {
      if (!socket->send(bus::encode_request({{sent}, false, command_of(sent)}))) break;
      under_way[sent++] = clock_type::now();
    }
    const auto frame = socket->receive(std::chrono::seconds(60));
    const auto reply = frame ? bus::decode_reply(*frame) : result<bus::reply>(fail(frame.error()));
    if (!reply) break;
    const auto* number = std::get_if<std::uint64_t>(&reply->id.value);
    const auto found = number == nullptr ? under_way.end() : under_way.find(*number);
    if (found == under_way.end()) {
      ++out.unexpected;
      continue;
    }
    const double took_us = std::chrono::duration<double, std::micro>(clock_type::now() - found->second).count();
    (*number % 10 == 0 ? out.vram_us : out.status_us).push_back(took_us);
    out.errors += std::holds_alternative<error>(reply->body);
    under_way.erase(found);
    ++answered;
  }
  out.missing = count - out.status_us.size() - out.vram_us.size();
  return out;
}

bus::generate conversation() {
  bus::generate asked;
  asked.prompt = "In the beginning";
  asked.max_tokens = 400;
  asked.temperature = 0.0f;
  asked.hash = true;
  asked.ignore_eos = true;
  return asked;
}

// Answers one after the other until told to stop; whether each had the hash of the first.
bool keep_answering(const std::string& endpoint, const std::atomic<bool>& stop, const std::string& expected, std::uint64_t& tokens) {
  auto connected = tools::connect_to_daemon(endpoint);
  if (!connected) return false;
  bool same = true;
  do {
    const auto reply = tools::ask(**connected, conversation(), std::chrono::seconds(120));
    const auto* done = reply ? std::get_if<bus::done>(&reply->body) : nullptr;
    same = same && done != nullptr && done->hash == expected;
    if (done != nullptr) tokens += done->generated_tokens;
  } while (!stop && same);
  return same;
}

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void print_row(const char* name, std::vector<double>& us) {
  std::printf("%-8s %8zu   p50 %9.0f us   p99 %9.0f us   max %9.0f us\n", name, us.size(), percentile(us, 0.5), percentile(us, 0.99), percentile(us, 1));
}

int run(const load_options& options) {
  bus::test::temporary_folder folder;
  tools::engine_options engine;
  engine.from.model = EBB_DEMO_MODEL;
  engine.from.cards.assign(2, card_choice{});
  engine.from.vram_segment_bytes = 1u << 20;
  engine.from.threads = 1;
  engine.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  engine.from.state_dir = (folder / "state").string();
  auto daemon = tools::daemon::start(engine);
  if (!daemon) {
    std::fprintf(stderr, "bus_load: %s\n", daemon.error().text.c_str());
    return 2;
  }
  const std::string endpoint = engine.from.bus.listen.front();
  auto alone = tools::connect_to_daemon(endpoint);
  const auto first = tools::ask(**alone, conversation(), std::chrono::seconds(120));
  const std::string expected = first ? std::get<bus::done>(first->body).hash : "";

  std::atomic<bool> stop = false;
  bool same = true;
  std::uint64_t tokens = 0;
  std::thread answering;
  if (!options.idle) answering = std::thread([&] { same = keep_answering(endpoint, stop, expected, tokens); });
  const double rss_before = tools::read_process_memory().rss_anon_mib;
  std::vector<tally> tallies(options.clients);
  std::vector<std::thread> clients;
  const auto began = clock_type::now();
  for (unsigned number = 0; number < options.clients; ++number) {
    const std::uint64_t share = options.commands / options.clients + (number < options.commands % options.clients ? 1 : 0);
    clients.emplace_back([&, number, share] { tallies[number] = run_client(endpoint, share, options.pipeline); });
  }
  for (std::thread& each : clients) each.join();
  const double seconds = std::chrono::duration<double>(clock_type::now() - began).count();
  stop = true;
  if (answering.joinable()) answering.join();

  tally all;
  for (tally& each : tallies) {
    all.status_us.insert(all.status_us.end(), each.status_us.begin(), each.status_us.end());
    all.vram_us.insert(all.vram_us.end(), each.vram_us.begin(), each.vram_us.end());
    all.errors += each.errors;
    all.unexpected += each.unexpected;
    all.missing += each.missing;
  }
  std::printf("%llu commands, %u clients, %u under way each, %s: %.2f s, %.0f commands/s\n", static_cast<unsigned long long>(options.commands), options.clients,
              options.pipeline, options.idle ? "idle" : "while an answer streams", seconds, static_cast<double>(options.commands) / seconds);
  print_row("status", all.status_us);
  print_row("vram", all.vram_us);
  std::printf("lost %llu, answered twice %llu, errors %llu; tokens meanwhile %llu (%.0f/s), same hash: %s; memory of the process %+.1f MiB\n",
              static_cast<unsigned long long>(all.missing), static_cast<unsigned long long>(all.unexpected), static_cast<unsigned long long>(all.errors),
              static_cast<unsigned long long>(tokens), static_cast<double>(tokens) / seconds, same ? "yes" : "NO",
              tools::read_process_memory().rss_anon_mib - rss_before);
  return all.missing == 0 && all.unexpected == 0 && all.errors == 0 && same && !expected.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  load_options options;
  CLI::App app{"bus_load: commands by many clients while an answer streams"};
  app.add_option("--commands", options.commands)->capture_default_str();
  app.add_option("--clients", options.clients)->check(CLI::Range(1u, 1024u))->capture_default_str();
  app.add_option("--pipeline", options.pipeline, "commands under way, of each client")->check(CLI::Range(1u, 1024u))->capture_default_str();
  app.add_flag("--idle", options.idle, "no answer meanwhile");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
