// bus/journal_file.hpp: a journal's file, held open for appending by one process at a time. For one thread.
#pragma once
#include "bus/bytes.hpp"
#include "bus/file_descriptor.hpp"
#include "config/result.hpp"
#include <cstdint>
#include <filesystem>
#include <string>

namespace ebb::bus {

class journal_reader;

class journal_file {
 public:
  // Makes the file, or continues it after its last whole record: the rest of a torn one, which a killed writer leaves, and zeros behind
  // it, which a lost power leaves, are cut off (bus/journal_tear.hpp). Torn in its first header, it is begun anew.
  // A file that exists is read through once. Its mode becomes 0600, since frames hold people's prompts.
  // Errors: file_unwritable, file_unreadable, refused (no regular file; another process appends to it; its bytes are no journal, or
  // a damaged one, and are left as they are).
  static result<journal_file> open(const std::filesystem::path& path);

  // How much of a torn record was cut off. 0: nothing was.
  std::uint64_t cut_bytes() const noexcept { return cut_bytes_; }
  const std::string& name() const noexcept { return name_; }

  // All of it, or an error, after which the file may end in a torn record. Errors: file_unwritable.
  result<void> append(bytes_view records);

  // Makes it as long as it was when it was opened, as if nothing had been appended.
  void take_back() noexcept;

 private:
  journal_file(file_descriptor file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}
  result<void> prepare();
  result<void> cut_torn_tail();
  result<bool> ends_torn(const error& wrong, const journal_reader& reader) const;
  result<bytes> read_from(std::uint64_t offset_bytes) const;
  tl::unexpected<error> failed_call(std::string_view call) const;

  file_descriptor file_;
  std::string name_;
  std::uint64_t opened_bytes_ = 0;
  std::uint64_t cut_bytes_ = 0;
};

}  // namespace ebb::bus
