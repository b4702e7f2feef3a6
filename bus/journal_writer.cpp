#include "bus/journal_writer.hpp"
#include "bus/thread_signals.hpp"
#include <string>
#include <utility>

namespace ebb::bus {
namespace {

// In the queue; the record in the file is smaller, since its fields take less than the struct.
std::size_t size_in_queue(const client_id& client, std::size_t frame_bytes) {
  return sizeof(journal_message) + client.routing_id.size() + frame_bytes;
}

void append_to(bytes& out, const bytes& more) { out.insert(out.end(), more.begin(), more.end()); }

}  // namespace

journal_options journal_from_now(std::string version, std::map<std::string, std::string> about) {
  const auto start = std::chrono::steady_clock::now();
  journal_options options;
  options.header = {std::move(version), std::chrono::system_clock::now().time_since_epoch(), std::move(about)};
  options.now = [start] { return std::chrono::steady_clock::now() - start; };
  return options;
}

result<std::unique_ptr<journal_writer>> journal_writer::open(const std::filesystem::path& path, journal_options options) {
  const bytes header = encode_journal_record(options.header);
  if (header.size() > limits::journal_around_bytes_max) {
    return fail(errc::too_large, "journal " + path.string() + ": its header would have " + std::to_string(header.size()) +
                                     " bytes, but at most " + std::to_string(limits::journal_around_bytes_max) + " are allowed");
  }
  auto file = journal_file::open(path);
  if (!file) return fail(file.error());
  if (auto begun = file->append(header); !begun) {
    file->take_back();
    return fail(begun.error());
  }
  return std::unique_ptr<journal_writer>(new journal_writer(std::move(*file), std::move(options)));
}

journal_writer::journal_writer(journal_file file, journal_options options) : file_(std::move(file)), options_(std::move(options)) {
  thread_ = std::thread([this] {
    block_signals();
    run();
  });
}

journal_writer::~journal_writer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void journal_writer::append(journal_direction direction, const client_id& client, bytes_view frame) {
  push(journal_message{{}, direction, client, bytes(frame.begin(), frame.end())}, size_in_queue(client, frame.size()));
}

void journal_writer::append_gone(const client_id& client) { push(journal_gone{{}, client}, size_in_queue(client, 0)); }

void journal_writer::push(item what, std::size_t size_bytes) {
  if (!healthy_) return;
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    ++appended_count_;
    const bool fits = size_bytes <= limits::journal_record_bytes_max && queued_bytes_ + size_bytes <= options_.queue_bytes_max;
    const bool was_urgent = is_urgent();
    if (lost_count_ > 0 || !fits) {
      ++lost_count_;
    } else {
      std::visit([&](auto& each) { each.stamp.at = options_.now(); }, what);
      queued_bytes_ += size_bytes;
      queued_.push_back(std::move(what));
    }
    wakes = idle_ || (!was_urgent && is_urgent());
    idle_ = false;
  }
  if (wakes) changed_.notify_one();
}

void journal_writer::flush() {
  std::unique_lock lock(mutex_);
  const std::uint64_t all = appended_count_;
  awaited_count_ = all;
  changed_.notify_one();
  settled_.wait(lock, [&] { return settled_count_ >= all; });
}

void journal_writer::run() {
  std::vector<item> batch;
  while (take(batch)) {
    write(batch);
    settle();
  }
}

// Whether the thread must not pause any longer.
bool journal_writer::is_urgent() const {
  return stopping_ || awaited_count_ > taken_count_ || queued_bytes_ > options_.queue_bytes_max / 2;
}

// Waits for messages, then takes all of them, those that were lost as one record. False when the writer stops and none is left.
bool journal_writer::take(std::vector<item>& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limits::journal_pause, [&] { return is_urgent(); });
  idle_ = true;
  changed_.wait(lock, [&] { return stopping_ || appended_count_ > taken_count_; });
  idle_ = false;
  if (appended_count_ == taken_count_) return false;
  batch.clear();
  std::swap(batch, queued_);
  if (lost_count_ > 0) batch.push_back(journal_lost{{0, options_.now()}, lost_count_});
  lost_count_ = 0;
  queued_bytes_ = 0;
  taken_count_ = appended_count_;
  return true;
}

void journal_writer::write(std::vector<item>& batch) {
  for (item& each : batch) {
    std::visit(
        [&](auto& record) {
          record.stamp.sequence = ++sequence_;
          append_to(buffer_, encode_journal_record(std::move(record)));
        },
        each);
    if (buffer_.size() >= limits::journal_write_bytes) write_buffered();
  }
  write_buffered();
}

void journal_writer::write_buffered() {
  if (healthy_) {
    if (auto written = file_.append(buffer_); !written) {
      healthy_ = false;
      written.error().text += "; the journal ends here, and messages are served without it: free some space, then start again";
      if (options_.on_error) options_.on_error(written.error());
    }
  }
  buffer_.clear();
}

void journal_writer::settle() {
  const std::lock_guard lock(mutex_);
  settled_count_ = taken_count_;
  settled_.notify_all();
}

}  // namespace ebb::bus
