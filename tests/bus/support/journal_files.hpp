// tests/bus/support/journal_files.hpp: journals as whole files: their bytes, and their records up to what is wrong.
#pragma once
#include "bus/journal_reader.hpp"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ebb::bus::test {

struct journal_read {
  std::vector<journal_record> records;
  std::optional<error> wrong;  // none: read to the end
  std::uint64_t whole_bytes = 0;
};

inline journal_read read_all(journal_reader reader) {
  journal_read out;
  while (true) {
    auto record = reader.next();
    out.whole_bytes = reader.bytes_read();
    if (!record) out.wrong = record.error();
    if (!record || !*record) return out;
    out.records.push_back(std::move(**record));
  }
}

inline journal_read read_journal(const std::filesystem::path& path) {
  auto reader = journal_reader::open(path);
  if (!reader) return {{}, reader.error(), 0};
  return read_all(std::move(*reader));
}

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

inline std::string encoded(const std::vector<journal_record>& records) {
  std::string out;
  for (const journal_record& each : records) out += as_text(encode_journal_record(each));
  return out;
}

}  // namespace ebb::bus::test
