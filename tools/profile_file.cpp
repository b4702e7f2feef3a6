#include "tools/profile_file.hpp"
#include "config/limits.hpp"
#include "tools/atomic_file.hpp"
#include <fstream>
#include <iterator>

namespace ebb::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* advice = "; choose another place with `profile`, or \"off\"";

bool same_model(const bus::expert_profile& a, const bus::expert_profile& b) {
  return a.model == b.model && a.size_bytes == b.size_bytes && a.layers == b.layers && a.experts == b.experts;
}

std::string describe(const bus::expert_profile& of) {
  return of.model + " (" + std::to_string(of.size_bytes) + " bytes, " + std::to_string(of.layers) + " layers of " + std::to_string(of.experts) + " experts)";
}

}  // namespace

std::optional<profile_file> profile_file::of(const fs::path& gguf, const model::shape& dims, const std::string& setting, const fs::path& folder) {
  if (setting == "off" || (setting.empty() && folder.empty())) return std::nullopt;
  std::error_code failed;
  const std::uintmax_t size = fs::file_size(gguf, failed);
  bus::expert_profile about{gguf.filename().string(), failed ? 0 : size, dims.n_layers, dims.n_experts, {}};
  const fs::path automatic = folder / (about.model + "-" + std::to_string(about.size_bytes) + ".profile");
  return profile_file(setting.empty() ? automatic : fs::path(setting), std::move(about));
}

result<std::optional<std::vector<float>>> profile_file::read() const {
  std::error_code failed;
  if (!fs::exists(path_, failed)) return std::optional<std::vector<float>>{};
  const std::string ignored = "; it is ignored, and the caches start with no experts preferred";
  const auto size = fs::file_size(path_, failed);
  std::ifstream in(path_, std::ios::binary);
  if (failed || !in) return fail(errc::file_unreadable, "profile " + path_.string() + " cannot be read" + ignored);
  if (size > limits::profile_bytes_max) return fail(errc::corrupt, "profile " + path_.string() + ": " + std::to_string(size) + " bytes are no profile" + ignored);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto found = bus::decode_profile(bus::as_bytes(text));
  if (!found) return fail(errc::corrupt, path_.string() + ": " + found.error().text + ignored);
  if (!same_model(*found, about_)) {
    return fail(errc::refused, "profile " + path_.string() + " is of " + describe(*found) + ", not of " + describe(about_) + ignored +
                                   ", and nothing is kept in this run" + advice);
  }
  return std::optional(std::move(found->heat));
}

result<void> profile_file::write(std::vector<float> heat) const {
  bus::expert_profile what = about_;
  what.heat = std::move(heat);
  auto written = replace_file(path_, bus::encode_profile(what));
  if (!written) return fail(written.error().code, written.error().text + "; the profile of expert heat is not kept" + advice);
  return written;
}

}  // namespace ebb::tools
