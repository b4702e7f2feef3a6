// tools/ebbd/main.cpp: the daemon: loads a model, prints one line when it is ready, and serves until SIGTERM or SIGINT.
#include "config/settings.hpp"
#include "tools/daemon.hpp"
#include "tools/exit_code.hpp"
#include "tools/stop_signals.hpp"
#include "tools/version.hpp"
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

namespace {

using namespace ebb;

struct arguments {
  std::string model;
  std::string config;
  std::vector<std::string> overrides;
};

const char* const footer =
    "Examples:\n"
    "  ebbd model/demo/chapbook-q4_k_m.gguf\n"
    "  ebbd --config ebb.toml --set parallel=8\n"
    "  ebbd MODEL.gguf --set 'cards=[\"host\", \"host\"]' --set vram_segment_mib=1\n"
    "Every key of the settings is in config/ebb.toml. EBB_<KEY> in the environment sets one too; --set wins.\n"
    "Exit codes: 0 stopped by a signal, 1 could not start or failed, 2 bad arguments or settings.";

result<settings> read_settings(const arguments& given) {
  settings_sources sources{.file = given.config, .variables = ebb_environment(), .overrides = given.overrides};
  auto from = load_settings(sources);
  if (from && !given.model.empty()) from->model = given.model;
  return from;
}

void warn(const error& what) { std::cerr << "ebbd: " << what.text << " [" << to_string(what.code) << "]\n"; }

int report(const error& why) {
  warn(why);
  return tools::exit_code_of(why.code);
}

// A start at a reserve that leaves no room is no error, since the CPU computes what is not in a cache; but it is said.
void warn_of_short(const tools::engine& engine) {
  for (const bus::card_report& card : engine.loaded()) {
    if (card.short_mib == 0) continue;
    std::cerr << "ebbd: card " << card.device << " has no room for a cache: its reserve of " << card.reserve_mib << " MiB is short by "
              << card.short_mib << " MiB\n";
  }
}

// Conversations are then written in a plain form, which the model may never have seen.
void warn_of_chat(const tools::engine& engine) {
  if (const auto& obstacle = engine.chat_obstacle()) {
    std::cerr << "ebbd: conversations are written in a plain form (docs/CHAT_TEMPLATE.md): " << obstacle->text << '\n';
  }
}

// Waits for the signal that ends the daemon, or names the one that has come.
int stopping(tools::stop_signals& stop) {
  const char* signal = stop.wait();
  std::cout << "ebbd stopping: " << signal << std::endl;
  return tools::exit_ok;
}

int serve(const arguments& given) {
  tools::stop_signals stop;
  auto from = read_settings(given);
  if (!from) return report(from.error());
  const char* isa = std::getenv("EBB_ISA");
  auto started = tools::daemon::start({.from = *from, .settings_file = given.config, .forced_isa = isa == nullptr ? "" : isa, .progress = {}, .stop = stop.token(), .warn = warn});
  if (!started && stop.token().stop_requested()) return stopping(stop);
  if (!started) return report(started.error());
  const auto& daemon = **started;
  std::cout << "ebbd ready: " << from->model << " on " << daemon.engine().cards().size() << " card(s), " << daemon.engine().n_threads()
            << " thread(s), " << kernels::cpu::to_string(daemon.engine().isa()) << "; listening at";
  for (const auto& endpoint : daemon.endpoints()) std::cout << ' ' << endpoint;
  if (!daemon.url().empty()) std::cout << ' ' << daemon.url();
  std::cout << std::endl;
  if (const auto trouble = daemon.state_trouble()) std::cerr << "ebbd: " << trouble->text << '\n';
  warn_of_short(daemon.engine());
  warn_of_chat(daemon.engine());
  return stopping(stop);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"ebbd: serves a Mixture-of-Experts model and lends its memory to other programs while it answers."};
  arguments given;
  app.add_option("model", given.model, "GGUF file; wins over the setting `model`");
  app.add_option("--config", given.config, "TOML file of settings")->check(CLI::ExistingFile);
  app.add_option("--set", given.overrides, "key=value, as in the settings file; may be repeated")->allow_extra_args(false);
  app.set_version_flag("--version", std::string("ebbd ") + tools::version);
  app.footer(footer);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    return app.exit(stop) == 0 ? tools::exit_ok : tools::exit_usage;
  }
  try {
    return serve(given);
  } catch (const std::exception& unforeseen) {
    std::cerr << "ebbd: " << unforeseen.what() << " [internal]\n";
    return tools::exit_failed;
  }
}
