// tests/fuzz/journal_fuzz.cpp: any bytes are read as a journal, or refused with how far it is good. Since few random bytes have the
// right sum, they are tried as the payload of a record too.
#include "bus/journal_reader.hpp"
#include "config/assert.hpp"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace ebb;
using namespace ebb::bus;

file_descriptor memory_file(bytes_view content) {
  file_descriptor file(::memfd_create("journal_fuzz", MFD_CLOEXEC));
  EBB_ASSERT(file.is_open());
  EBB_ASSERT(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  EBB_ASSERT(::lseek(file.get(), 0, SEEK_SET) == 0);
  return file;
}

// As many records as were given, and each error says up to where.
void check_file(bytes_view content) {
  journal_reader reader(memory_file(content), "fuzz");
  std::uint64_t records = 0;
  while (true) {
    const auto record = reader.next();
    EBB_ASSERT(reader.bytes_read() <= content.size());
    EBB_ASSERT(reader.records_read() == records + (record && *record ? 1 : 0));
    if (!record) return EBB_ASSERT(record.error().text.find("up to byte " + std::to_string(reader.bytes_read())) != std::string::npos);
    if (!*record) return EBB_ASSERT(reader.bytes_read() == content.size());
    ++records;
  }
}

// By lengths and sums alone a file is at least as good as with a look into the records.
void check_skipping(bytes_view content) {
  journal_reader reading(memory_file(content), "fuzz");
  journal_reader skipping(memory_file(content), "fuzz");
  for (auto record = reading.next(); record && *record; record = reading.next()) {
    const auto skipped = skipping.skip();
    EBB_ASSERT(skipped.has_value());
    EBB_ASSERT(*skipped);
  }
  EBB_ASSERT(skipping.bytes_read() == reading.bytes_read());
}

void check_payload(bytes_view payload) {
  const auto record = decode_journal_payload(payload);
  if (!record) return EBB_ASSERT(!record.error().text.empty());
  const bytes again = encode_journal_record(*record);
  EBB_ASSERT(again.size() <= journal_prefix_bytes + payload.size());
  const auto same = decode_journal_payload(bytes_view(again).subspan(journal_prefix_bytes));
  EBB_ASSERT(same.has_value());
  EBB_ASSERT(*same == *record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto content = std::as_bytes(std::span(data, size));
  check_file(content);
  check_skipping(content);
  check_payload(content);
  if (size >= journal_prefix_bytes) check_payload(content.subspan(journal_prefix_bytes));
  return 0;
}
