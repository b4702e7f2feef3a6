#include "tests/gpu/engine/nvidia_smi.hpp"
#include "tests/gpu/engine/figures.hpp"
#include "tests/tools/support/child_process.hpp"
#include <cstdio>
#include <map>
#include <sstream>

namespace ebb::tools::test {
namespace {

// None: it is not there, or does not say.
std::optional<double> free_mib_by_nvidia_smi(const std::string& uuid) {
  const std::string command = "nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits -i " + uuid + " 2>/dev/null";
  FILE* const said = ::popen(command.c_str(), "r");
  if (said == nullptr) return std::nullopt;
  double found_mib = 0;
  const bool read = std::fscanf(said, "%lf", &found_mib) == 1;
  return ::pclose(said) == 0 && read ? std::optional(found_mib) : std::nullopt;
}

}  // namespace

bool compare_with_nvidia_smi(served& with, const std::string& when) {
  for (const bus::card_info& card : with.cards()) {
    if (card.kind != "cuda") continue;
    const auto seen_mib = free_mib_by_nvidia_smi(card.uuid);
    if (!seen_mib) {
      std::printf("nvidia-smi does not say what is free: not compared\n");
      return false;
    }
    const double off_mib = *seen_mib - card.report.vram_free_mib;
    const std::string where = "card " + std::to_string(card.report.device) + ", " + when;
    std::printf("%-46s %-22s %10.2f   nvidia-smi %.0f MiB, ebb %.2f MiB\n", "free figures, difference", where.c_str(), off_mib, *seen_mib,
                card.report.vram_free_mib);
    char text[64];
    std::snprintf(text, sizeof text, "%.2f MiB off, at most 2 wanted", off_mib);
    print_goal(std::abs(off_mib) <= 2, "free memory by nvidia-smi, " + where + ": " + text);
  }
  return true;
}

struct nvidia_smi_watch::child {
  child_process process{{"/usr/bin/env", "stdbuf", "-oL", "nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits", "-lms", "200"}};  // line by line, since it never ends by itself
};

nvidia_smi_watch::nvidia_smi_watch() : child_(std::make_unique<child>()) {}
nvidia_smi_watch::~nvidia_smi_watch() = default;

void nvidia_smi_watch::print(const std::string& what) const {
  struct range {
    double least, most;
    std::uint32_t count = 0;
  };
  std::map<std::uint32_t, range> used_mib;
  std::istringstream said(child_->process.out());
  for (std::string line; std::getline(said, line);) {
    std::uint32_t gpu = 0;
    double used = 0;
    if (std::sscanf(line.c_str(), "%u, %lf", &gpu, &used) != 2) continue;
    range& of = used_mib.try_emplace(gpu, range{used, used}).first->second;
    of = {std::min(of.least, used), std::max(of.most, used), of.count + 1};
  }
  for (const auto& [gpu, of] : used_mib) {
    std::printf("%-46s GPU %-18u %10.0f   to %.0f MiB in use by nvidia-smi, %u times asked\n", what.c_str(), gpu, of.least, of.most, of.count);
  }
  if (used_mib.empty()) std::printf("nvidia-smi says nothing every 200 ms: not watched\n");
  std::fflush(stdout);
}

}  // namespace ebb::tools::test
