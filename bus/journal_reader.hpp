// bus/journal_reader.hpp: reads a journal record by record, in memory bounded by one record, whatever the file's size.
//
// What is given was written: each record's sum, form and place in the order are checked. The first one that is torn or damaged
// ends the reading, since no later byte can be trusted to begin a record.
#pragma once
#include "bus/file_descriptor.hpp"
#include "bus/journal_record.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ebb::bus {

class journal_reader {
 public:
  // Errors: file_unreadable.
  static result<journal_reader> open(const std::filesystem::path& path);

  // From where the file stands, which may be a pipe. `name` is for error texts.
  journal_reader(file_descriptor file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  // The next record, or none at the end of the file. An error stays the answer from then on, and says how far the journal is good.
  // Errors: truncated (the file ends within a record, as when its writer was killed), corrupt (bytes that are no record, or a
  // record out of order), unsupported_version, file_unreadable (the system cannot read on).
  result<std::optional<journal_record>> next();

  // Passes over the next record by its length and sum, at the speed of the disk. False at the end of the file. Errors: as next().
  result<bool> skip();

  std::uint64_t records_read() const noexcept { return records_read_; }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }  // of those records: where the next one begins

 private:
  result<std::optional<bytes_view>> read_payload();
  result<std::optional<journal_record>> read_record();
  result<bool> skip_record();
  void pass(bytes_view payload) noexcept;
  result<bool> buffer(std::size_t size_bytes);
  tl::unexpected<error> end_with(error why);
  result<void> check_order(const journal_record& record);
  error with_place(error what) const;
  bytes_view unread() const noexcept { return bytes_view(buffered_).subspan(consumed_); }

  file_descriptor file_;
  std::string name_;
  bytes buffered_;
  std::size_t consumed_ = 0;  // of buffered_, so that its bytes move once a read, not once a record
  std::uint64_t records_read_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::optional<std::uint64_t> sequence_due_ = 0;  // 0: a header; none: not known, after a skip
  std::optional<error> wrong_;
};

}  // namespace ebb::bus
