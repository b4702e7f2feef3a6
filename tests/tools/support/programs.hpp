// tests/tools/support/programs.hpp: ebb and ebbd run as a user runs them.
#pragma once
#include "tests/tools/support/child_process.hpp"
#include "tools/exit_code.hpp"
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ebb::tools::test {

using nlohmann::json;
using words = std::vector<std::string>;

inline const std::string demo_model = EBB_DEMO_MODEL;

inline outcome ebb_runs(words arguments, const variables& changed = {}) {
  arguments.insert(arguments.begin(), EBB_PROGRAM);
  return run_program(std::move(arguments), changed);
}

// An ebbd with the demo model on two host cards, in a folder of its own.
class running_ebbd {
 public:
  running_ebbd() : process_(command()) {
    const bool ready = comes_true([&] { return !process_.running() || process_.out().find("ebbd ready") != std::string::npos; });
    if (!ready || !process_.running()) throw std::runtime_error("ebbd did not start: " + process_.err());
  }

  words command() const {
    return {EBBD_PROGRAM, demo_model, "--set", "cards=host,host", "--set", "vram_segment_mib=1", "--set", "threads=1", "--set", "bus.listen=" + endpoint(), "--set", "state_dir=" + (folder_ / "state").string()};
  }
  std::string endpoint() const { return "ipc://" + socket_file().string(); }
  std::filesystem::path socket_file() const { return folder_ / "commands"; }
  child_process& process() { return process_; }

  // A subcommand of ebb that asks this daemon.
  words asking(words arguments) const {
    arguments.insert(arguments.begin(), EBB_PROGRAM);
    arguments.insert(arguments.end(), {"--connect", endpoint()});
    return arguments;
  }
  outcome asked(words arguments) const { return run_program(asking(std::move(arguments))); }

  double rss_anon_mib() const {
    std::ifstream status("/proc/" + std::to_string(process_.pid()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1024;
    }
    throw std::runtime_error("no RssAnon");
  }

 private:
  bus::test::temporary_folder folder_;
  child_process process_;
};

inline std::vector<json> lines_as_json(const std::string& text) {
  std::vector<json> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    json parsed = json::parse(line, nullptr, false);
    REQUIRE_FALSE(parsed.is_discarded());
    all.push_back(std::move(parsed));
  }
  return all;
}

inline std::vector<float> floats_of(const std::filesystem::path& path) {
  const std::string bytes = content_of(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// What follows "hash of the logits " on stderr.
inline std::string hash_in(const std::string& err) {
  const std::string before = "hash of the logits ";
  const auto at = err.find(before);
  return at == std::string::npos ? "none" : err.substr(at + before.size(), 32);
}

inline void check_usage_error(const outcome& ended, const std::string& names) {
  CHECK(ended.code == exit_usage);
  CHECK_THAT(ended.out + ended.err, Catch::Contains(names));
}

}  // namespace ebb::tools::test
