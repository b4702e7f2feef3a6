#include "tools/inner_clients.hpp"
#include "bus/codec.hpp"
#include "config/assert.hpp"
#include <string_view>

namespace ebb::tools {
namespace {

constexpr std::string_view prefix{"\0inner-", 7};

}  // namespace

bool inner_clients::is_inner(const bus::client_id& who) { return who.routing_id.starts_with(prefix); }

bus::client_id inner_clients::join(std::function<void(const bus::reply&)> take) {
  auto made = std::make_shared<client>();
  made->take = std::move(take);
  const std::lock_guard lock(mutex_);
  bus::client_id id{std::string(prefix) + std::to_string(++joined_)};
  clients_.emplace(id, std::move(made));
  return id;
}

void inner_clients::submit(const bus::client_id& who, const bus::request& asked) {
  EBB_ASSERT(!asked.id.empty() && !asked.text);
  {
    const std::lock_guard lock(mutex_);
    EBB_ASSERT(clients_.contains(who));
  }
  handle_.on_frame(who, bus::encode_request(asked));
}

void inner_clients::leave(const bus::client_id& who) {
  std::shared_ptr<client> leaving;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(who);
    EBB_ASSERT(found != clients_.end());
    leaving = std::move(found->second);
    clients_.erase(found);
  }
  {
    const std::lock_guard lock(leaving->mutex);
    leaving->take = {};
  }
  handle_.on_gone(who);
}

void inner_clients::deliver(const bus::client_id& to, const bus::reply& what) {
  std::shared_ptr<client> known;
  {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(to);
    if (found == clients_.end()) return;
    known = found->second;
  }
  const std::lock_guard lock(known->mutex);
  if (known->take) known->take(what);
}

std::uint64_t inner_clients::listen(std::function<void(const bus::event&)> take) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.emplace(++listened_, std::move(take));
  return listened_;
}

void inner_clients::unlisten(std::uint64_t number) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.erase(number);
}

void inner_clients::tell(const bus::event& what) {
  const std::lock_guard lock(listeners_mutex_);
  for (const auto& [number, take] : listeners_) take(what);
}

}  // namespace ebb::tools
