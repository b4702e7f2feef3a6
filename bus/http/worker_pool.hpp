// bus/http/worker_pool.hpp: the threads that work for requests, one each: made when they are needed, up to a bound.
//
// Some stay when nothing is to do; those that a flood had made end after it, with what their allocator kept for them.
#pragma once
#include "bus/http/connection.hpp"
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace ebb::bus::http {

class worker_pool {
 public:
  // Each thread calls `make_work` once for the function with which it then works for connections.
  using work = std::function<void(connection&)>;
  worker_pool(std::size_t workers_max, std::function<work()> make_work) : workers_max_(workers_max), make_work_(std::move(make_work)) {}
  ~worker_pool() { stop(); }
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  // Hands the connection to a thread; it must live until the work is done. False: all are at work.
  bool begin(connection& client);

  std::size_t thread_count() const;

  // Returns when all work that was begun is done.
  void stop();

 private:
  bool add_thread();
  void run(std::list<std::thread>::iterator self);
  void join_ended(std::unique_lock<std::mutex>& lock);

  const std::size_t workers_max_;
  const std::function<work()> make_work_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<connection*> begun_;  // guarded by mutex_, as are the next
  std::size_t idle_ = 0;           // threads that wait, less connections that wait for them
  bool stopping_ = false;
  std::list<std::thread> threads_;  // those that run; each takes itself out when it ends
  std::vector<std::thread> ended_;  // to be joined
};

}  // namespace ebb::bus::http
