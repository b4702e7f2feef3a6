#include "bus/journal_reader.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <utility>

namespace ebb::bus {
namespace {

constexpr std::size_t read_bytes = 256u << 10;  // by one call, so that small records share one

std::optional<std::uint64_t> sequence_of(const journal_record& record) {
  return std::visit(
      [](const auto& what) -> std::optional<std::uint64_t> {
        if constexpr (requires { what.stamp; }) return what.stamp.sequence;
        return std::nullopt;
      },
      record);
}

}  // namespace

result<journal_reader> journal_reader::open(const std::filesystem::path& path) {
  file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return fail(errc::file_unreadable, "journal " + path.string() + ": cannot open it: " + std::strerror(errno));
  }
  return journal_reader(std::move(file), path.string());
}

result<std::optional<journal_record>> journal_reader::next() {
  if (wrong_) return fail(*wrong_);
  auto record = read_record();
  if (!record) return end_with(std::move(record.error()));
  return record;
}

result<bool> journal_reader::skip() {
  if (wrong_) return fail(*wrong_);
  auto skipped = skip_record();
  if (!skipped) return end_with(std::move(skipped.error()));
  return skipped;
}

tl::unexpected<error> journal_reader::end_with(error why) {
  wrong_ = with_place(std::move(why));
  return fail(*wrong_);
}

result<std::optional<journal_record>> journal_reader::read_record() {
  const auto payload = read_payload();
  if (!payload) return fail(payload.error());
  if (!*payload) return std::nullopt;
  auto record = decode_journal_payload(**payload);
  if (!record) return fail(record.error());
  if (auto ordered = check_order(*record); !ordered) return fail(ordered.error());
  pass(**payload);
  return std::move(*record);
}

result<bool> journal_reader::skip_record() {
  const auto payload = read_payload();
  if (!payload) return fail(payload.error());
  if (!*payload) return false;
  sequence_due_.reset();
  pass(**payload);
  return true;
}

// The next record's, whole and with the right sum; none at the end of the file. It lies in buffered_ until the next read.
result<std::optional<bytes_view>> journal_reader::read_payload() {
  const auto prefix_there = buffer(journal_prefix_bytes);
  if (!prefix_there) return fail(prefix_there.error());
  if (unread().empty()) return std::nullopt;
  if (!*prefix_there) return fail(errc::truncated, "the file ends within the first 8 bytes of a record");

  const auto [length_bytes, sum] = decode_journal_prefix(unread().first(journal_prefix_bytes));
  if (length_bytes == 0 || length_bytes > limits::journal_record_bytes_max) {
    return fail(errc::corrupt, "a record cannot have " + std::to_string(length_bytes) + " bytes");
  }
  const std::size_t whole_bytes = journal_prefix_bytes + length_bytes;
  const auto payload_there = buffer(whole_bytes);
  if (!payload_there) return fail(payload_there.error());
  if (!*payload_there) {
    return fail(errc::truncated,
                "the file ends after " + std::to_string(unread().size()) + " of a record's " + std::to_string(whole_bytes) + " bytes");
  }
  const bytes_view payload = unread().subspan(journal_prefix_bytes, length_bytes);
  if (journal_sum(payload) != sum) return fail(errc::corrupt, "a record's bytes do not have its sum");
  return payload;
}

void journal_reader::pass(bytes_view payload) noexcept {
  const std::size_t whole_bytes = journal_prefix_bytes + payload.size();
  consumed_ += whole_bytes;
  bytes_read_ += whole_bytes;
  ++records_read_;
}

// Whether unread() has `size_bytes` or more; false at the end of the file.
result<bool> journal_reader::buffer(std::size_t size_bytes) {
  if (unread().size() >= size_bytes) return true;
  buffered_.erase(buffered_.begin(), buffered_.begin() + static_cast<std::ptrdiff_t>(std::exchange(consumed_, 0)));
  while (buffered_.size() < size_bytes) {
    const std::size_t before = buffered_.size();
    buffered_.resize(before + read_bytes);
    const ssize_t got = ::read(file_.get(), buffered_.data() + before, read_bytes);
    const int why = errno;
    buffered_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return false;
    if (got < 0 && why != EINTR) return fail(errc::file_unreadable, std::string("cannot read on: ") + std::strerror(why));
  }
  return true;
}

result<void> journal_reader::check_order(const journal_record& record) {
  const auto sequence = sequence_of(record);
  if (sequence && sequence_due_ == 0) return fail(errc::corrupt, "the first record is no header");
  if (sequence && sequence_due_ && *sequence != *sequence_due_) {
    return fail(errc::corrupt,
                "a record has the sequence number " + std::to_string(*sequence) + " instead of " + std::to_string(*sequence_due_));
  }
  sequence_due_ = sequence.value_or(0) + 1;
  return {};
}

error journal_reader::with_place(error what) const {
  const std::string_view rest = what.code == errc::truncated ? "torn" : "unreadable";
  what.text = "journal " + name_ + ": read " + std::to_string(records_read_) + " records up to byte " + std::to_string(bytes_read_) +
              "; the rest is " + std::string(rest) + ": " + what.text;
  return what;
}

}  // namespace ebb::bus
