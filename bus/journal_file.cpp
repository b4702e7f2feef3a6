#include "bus/journal_file.hpp"
#include "bus/journal_reader.hpp"
#include "bus/journal_tear.hpp"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <utility>

namespace ebb::bus {
namespace {

constexpr mode_t private_mode = 0600;

// Reads to the end, or to what is wrong. Only the first record is looked into: whether this is a journal.
std::optional<error> read_through(journal_reader& reader) {
  if (const auto header = reader.next(); !header) return header.error();
  while (true) {
    const auto skipped = reader.skip();
    if (!skipped) return skipped.error();
    if (!*skipped) return std::nullopt;
  }
}

}  // namespace

result<journal_file> journal_file::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK a pipe in its place would be waited for.
  file_descriptor opened(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, private_mode));
  journal_file file(std::move(opened), path.string());
  if (!file.file_.is_open()) return file.failed_call("cannot open or create it");
  if (auto prepared = file.prepare(); !prepared) return fail(prepared.error());
  return file;
}

result<void> journal_file::prepare() {
  struct stat found {};
  if (::fstat(file_.get(), &found) != 0) return failed_call("cannot look at it");
  if (!S_ISREG(found.st_mode)) return fail(errc::refused, "journal " + name_ + ": it is no regular file; choose another path");
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed_call("cannot lock it");
    return fail(errc::refused, "journal " + name_ + ": another daemon appends to it; give this one another path");
  }
  opened_bytes_ = static_cast<std::uint64_t>(found.st_size);
  if (auto cut = cut_torn_tail(); !cut) return cut;
  if (::fchmod(file_.get(), private_mode) != 0) return failed_call("cannot make it private (mode 0600)");
  return {};
}

result<void> journal_file::cut_torn_tail() {
  file_descriptor same(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!same.is_open()) return failed_call("cannot read it");
  journal_reader reader(std::move(same), name_);
  const auto wrong = read_through(reader);
  if (!wrong) return {};
  if (wrong->code == errc::file_unreadable) return fail(*wrong);
  const auto torn = ends_torn(*wrong, reader);
  if (!torn) return fail(torn.error());
  if (!*torn) return fail(errc::refused, wrong->text + "; it cannot be continued: move it away, or choose another path");
  if (::ftruncate(file_.get(), static_cast<off_t>(reader.bytes_read())) != 0) return failed_call("cannot cut off a torn record");
  cut_bytes_ = opened_bytes_ - reader.bytes_read();
  opened_bytes_ = reader.bytes_read();
  return {};
}

// Only what begins as a journal is cut: the path of anything else is a mistake in the settings.
result<bool> journal_file::ends_torn(const error& wrong, const journal_reader& reader) const {
  const std::uint64_t whole_bytes = reader.bytes_read();
  if (wrong.code != errc::truncated && wrong.code != errc::corrupt) return false;
  if (opened_bytes_ - whole_bytes > journal_torn_bytes_max) return false;
  const auto rest = read_from(whole_bytes);
  if (!rest) return fail(rest.error());
  return reader.records_read() == 0 ? is_torn_header(*rest) : is_torn_record(*rest);
}

result<bytes> journal_file::read_from(std::uint64_t offset_bytes) const {
  bytes rest(opened_bytes_ - offset_bytes);
  for (std::size_t there = 0; there < rest.size();) {
    const ssize_t got = ::pread(file_.get(), rest.data() + there, rest.size() - there, static_cast<off_t>(offset_bytes + there));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed_call("cannot read its end");
    if (got == 0) return fail(errc::file_unreadable, "journal " + name_ + ": it became shorter while it was read; another program changes it");
    there += static_cast<std::size_t>(got);
  }
  return rest;
}

result<void> journal_file::append(bytes_view records) {
  while (!records.empty()) {
    const ssize_t written = ::write(file_.get(), records.data(), records.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed_call("cannot write");
    records = records.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

void journal_file::take_back() noexcept { static_cast<void>(::ftruncate(file_.get(), static_cast<off_t>(opened_bytes_)) == 0); }

tl::unexpected<error> journal_file::failed_call(std::string_view call) const {
  return fail(errc::file_unwritable, "journal " + name_ + ": " + std::string(call) + ": " + std::strerror(errno));
}

}  // namespace ebb::bus
