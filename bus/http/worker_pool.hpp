// bus/http/worker_pool.hpp: the threads that work for requests, one each: made when they are first needed, up to a bound.
//
// A thread that has nothing to do costs its stack's few pages and no time, so that none is ended before the service is.
#pragma once
#include "bus/http/connection.hpp"
#include <condition_variable>
#include <deque>
#include <functional>
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

  // Returns when all work that was begun is done.
  void stop();

 private:
  bool add_thread();
  void run();

  const std::size_t workers_max_;
  const std::function<work()> make_work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<connection*> begun_;  // guarded by mutex_, as are the next
  std::size_t idle_ = 0;           // threads that wait, less connections that wait for them
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // grows in begin() alone, by one thread
};

}  // namespace ebb::bus::http
