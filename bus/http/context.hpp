// bus/http/context.hpp: what the handlers of a service share.
#pragma once
#include "bus/command_port.hpp"
#include "bus/http/kept_reserves.hpp"
#include "bus/http/lease_keys.hpp"
#include "config/limits.hpp"
#include "config/settings.hpp"
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

namespace ebb::bus::http {

// Room for so many at once; who finds none is told so, and does not wait.
class room {
 public:
  explicit room(std::size_t most) : left_(static_cast<std::ptrdiff_t>(most)) {}

  // Places until it is destroyed.
  class places {
   public:
    explicit places(room* of = nullptr, std::size_t count = 0) : of_(of), count_(static_cast<std::ptrdiff_t>(count)) {}
    places(places&& other) noexcept : of_(std::exchange(other.of_, nullptr)), count_(other.count_) {}
    places& operator=(places&&) = delete;
    ~places() {
      if (of_ != nullptr) of_->left_ += count_;
    }
    explicit operator bool() const noexcept { return of_ != nullptr; }

   private:
    room* of_;
    std::ptrdiff_t count_;
  };
  places take(std::size_t count) {
    if (left_.fetch_sub(static_cast<std::ptrdiff_t>(count)) >= static_cast<std::ptrdiff_t>(count)) return places(this, count);
    left_ += static_cast<std::ptrdiff_t>(count);
    return places();
  }

 private:
  std::atomic<std::ptrdiff_t> left_;
};

struct context {
  command_port& port;
  const std::string version;
  const std::string model;                     // what /v1/models calls it
  const settings running;                      // as the daemon was started
  const std::filesystem::path settings_file;   // empty: none
  std::atomic<bool> loaded = false;            // the model has been; then commands about memory are answered at once
  kept_reserves kept{running};
  lease_keys keys{};
  room answers{limits::http_answers_max};
  room listeners{limits::http_listeners_max};
  std::mutex settings_file_mutex{};            // one edits it at a time
};

}  // namespace ebb::bus::http
