#include "bus/http/routes.hpp"
#include "config/assert.hpp"
#include <optional>

namespace ebb::bus::http {
namespace {

constexpr std::string_view any_part = "{}";

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (;;) {
    const auto slash = path.find('/', 1);
    parts.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return parts;
    path.remove_prefix(slash);
  }
}

// What stood for each {}; none if the path is another one.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::vector<std::string> taken;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (std::string_view(pattern[i]).substr(1) == any_part && path[i].size() > 1) taken.push_back(path[i].substr(1));
    else if (pattern[i] != path[i]) return std::nullopt;
  }
  return taken;
}

}  // namespace

void routes::add(std::string_view method, std::string_view path, handler answer, access who) {
  EBB_ASSERT(path.starts_with('/'));
  auto parts = parts_of(path);
  for (const route& each : all_) EBB_ASSERT(each.method != method || each.path != parts);
  all_.push_back({std::string(method), std::move(parts), std::move(answer), who});
}

routes::found routes::find(std::string_view method, std::string_view path) const {
  if (!path.starts_with('/')) return {};
  if (method == "HEAD") method = "GET";
  const auto parts = parts_of(path);
  found result;
  for (const route& each : all_) {
    auto taken = match(each.path, parts);
    if (!taken) continue;
    if (each.method == method) return {&each, *std::move(taken), {}};
    result.methods.push_back(each.method);
  }
  return result;
}

}  // namespace ebb::bus::http
