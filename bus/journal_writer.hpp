// bus/journal_writer.hpp: appends messages to a journal, from any thread, without making any of them wait for the disk.
//
// A message is copied into a bounded queue; one thread writes what has come, at most every limits::journal_pause. When the disk is
// slower than the messages, those that find no room are counted, and a `lost` record says in their place how many they were.
// When the disk fails, the journal ends: on_error is called once, healthy() is false, and further messages are ignored.
#pragma once
#include "bus/bytes.hpp"
#include "bus/client_id.hpp"
#include "bus/journal_file.hpp"
#include "bus/journal_record.hpp"
#include "config/limits.hpp"
#include "config/result.hpp"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace ebb::bus {

struct journal_options {
  journal_header header;
  std::function<std::chrono::nanoseconds()> now;  // monotonic, since the start; called by one thread at a time
  std::function<void(const error&)> on_error;     // from the journal's own thread; must not block or throw
  std::size_t queue_bytes_max = limits::journal_queue_bytes_max;
};

// The header with the wall clock, and the time from now on.
journal_options journal_from_now(std::string version, std::map<std::string, std::string> about);

class journal_writer {
 public:
  // Makes the file or continues it, and writes a header. Errors: those of journal_file::open(), too_large (a header beyond
  // limits::journal_around_bytes_max).
  static result<std::unique_ptr<journal_writer>> open(const std::filesystem::path& path, journal_options options);

  // Writes what is queued, which takes as long as the disk does.
  ~journal_writer();
  journal_writer(const journal_writer&) = delete;
  journal_writer& operator=(const journal_writer&) = delete;

  // From any thread. The order of the calls is the order of the records.
  void append(journal_direction direction, const client_id& client, bytes_view frame);
  void append_gone(const client_id& client);

  // Waits until all that was appended before is in the file, or the journal has ended.
  void flush();

  // Whether the file still grows.
  bool healthy() const noexcept { return healthy_; }

  // How much of a torn record the file ended with, which was cut off when it was opened. 0: none.
  std::uint64_t cut_bytes() const noexcept { return file_.cut_bytes(); }

 private:
  using item = std::variant<journal_message, journal_gone, journal_lost>;

  journal_writer(journal_file file, journal_options options);
  void push(item what, std::size_t size_bytes);
  void run();
  bool is_urgent() const;
  bool take(std::vector<item>& batch);
  void write(std::vector<item>& batch);
  void write_buffered();
  void settle();

  journal_file file_;
  const journal_options options_;

  std::mutex mutex_;
  std::condition_variable changed_;  // for the thread: something to do
  std::condition_variable settled_;  // for flush()
  std::vector<item> queued_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t lost_count_ = 0;  // since the queue was taken; none finds room until it is taken again, which keeps the order
  std::uint64_t appended_count_ = 0;
  std::uint64_t taken_count_ = 0;    // of appended_count_: with the thread, or written
  std::uint64_t settled_count_ = 0;  // of appended_count_: written
  std::uint64_t awaited_count_ = 0;  // what flush() waits for
  bool idle_ = false;                // the thread waits for the next message, not for the end of its pause
  bool stopping_ = false;

  std::atomic<bool> healthy_ = true;
  std::uint64_t sequence_ = 0;  // of the last record; the thread's own, as is buffer_
  bytes buffer_;
  std::thread thread_;
};

}  // namespace ebb::bus
