#include "bus/http/worker_pool.hpp"
#include "bus/thread_signals.hpp"
#include "config/limits.hpp"
#include <system_error>
#include <utility>

namespace ebb::bus::http {

bool worker_pool::begin(connection& client) {
  std::unique_lock lock(mutex_);
  if (stopping_) return false;
  if (idle_ > 0) --idle_;
  else if (!add_thread()) return false;
  begun_.push_back(&client);
  changed_.notify_one();
  join_ended(lock);
  return true;
}

bool worker_pool::add_thread() {
  if (threads_.size() >= workers_max_) return false;
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = std::thread([this, self] { run(self); });
  } catch (const std::system_error&) {  // the system has no more of them
    threads_.erase(self);
    return false;
  }
  return true;
}

void worker_pool::run(std::list<std::thread>::iterator self) {
  block_signals();
  const work do_work = make_work_();
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool called = changed_.wait_for(lock, limits::http_worker_rest, [this] { return stopping_ || !begun_.empty(); });
    if (!called && (idle_ == 0 || threads_.size() <= limits::http_workers_kept)) continue;
    if (!called) {
      --idle_;
      ended_.push_back(std::move(*self));
      threads_.erase(self);
      return;
    }
    if (begun_.empty()) return;
    connection& client = *begun_.front();
    begun_.pop_front();
    lock.unlock();
    do_work(client);
    lock.lock();
    ++idle_;
  }
}

// They have nothing left to do but to return.
void worker_pool::join_ended(std::unique_lock<std::mutex>& lock) {
  auto ended = std::exchange(ended_, {});
  lock.unlock();
  for (std::thread& each : ended) each.join();
}

std::size_t worker_pool::thread_count() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void worker_pool::stop() {
  std::list<std::thread> running;
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  running.swap(threads_);
  join_ended(lock);
  for (std::thread& each : running) each.join();
}

}  // namespace ebb::bus::http
