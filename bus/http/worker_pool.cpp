#include "bus/http/worker_pool.hpp"
#include "bus/thread_signals.hpp"
#include <system_error>
#include <utility>

namespace ebb::bus::http {

bool worker_pool::begin(connection& client) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  if (idle_ > 0) --idle_;
  else if (!add_thread()) return false;
  begun_.push_back(&client);
  changed_.notify_one();
  return true;
}

bool worker_pool::add_thread() {
  if (threads_.size() >= workers_max_) return false;
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // the system has no more of them
    return false;
  }
  return true;
}

void worker_pool::run() {
  block_signals();
  const work do_work = make_work_();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !begun_.empty(); });
    if (begun_.empty()) return;
    connection& client = *begun_.front();
    begun_.pop_front();
    lock.unlock();
    do_work(client);
    lock.lock();
    ++idle_;
  }
}

void worker_pool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& each : std::exchange(threads_, {})) each.join();
}

}  // namespace ebb::bus::http
