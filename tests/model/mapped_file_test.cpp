#include "model/mapped_file.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include <catch2/catch.hpp>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace ebb::model {
namespace {

std::filesystem::path write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string_view text_of(const mapped_file& file) { return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}; }

}  // namespace

TEST_CASE("a mapped file has the bytes of the file") {
  const test::temporary_folder folder;
  const std::string text = "some bytes" + std::string(10000, '\0') + "and some more";
  const auto file = mapped_file::open(write(folder / "file", text));
  REQUIRE(file.has_value());
  CHECK(text_of(*file) == text);
}

TEST_CASE("an empty file is mapped as no bytes") {
  const test::temporary_folder folder;
  const auto file = mapped_file::open(write(folder / "empty", ""));
  REQUIRE(file.has_value());
  CHECK(file->bytes().empty());
}

TEST_CASE("what cannot be mapped is named, with the reason") {
  const test::temporary_folder folder;
  test::check_error(mapped_file::open(folder / "absent"), errc::file_unreadable, {(folder / "absent").string(), "No such file"});
  test::check_error(mapped_file::open(folder / ""), errc::file_unreadable, {(folder / "").string(), "not a regular file"});
}

TEST_CASE("a pipe is refused, not waited for") {
  const test::temporary_folder folder;
  const auto pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  test::check_error(mapped_file::open(pipe), errc::file_unreadable, {pipe.string(), "not a regular file"});
}

TEST_CASE("bytes stay where they are when a mapped file is moved") {
  const test::temporary_folder folder;
  auto first = mapped_file::open(write(folder / "first", "first"));
  auto second = mapped_file::open(write(folder / "second", "second"));
  REQUIRE((first.has_value() && second.has_value()));
  const std::byte* const place = first->bytes().data();
  mapped_file moved = *std::move(first);
  CHECK(moved.bytes().data() == place);
  CHECK(text_of(moved) == "first");
  moved = *std::move(second);
  CHECK(text_of(moved) == "second");
}

TEST_CASE("a mapping keeps the file that another was renamed over") {
  const test::temporary_folder folder;
  const auto file = mapped_file::open(write(folder / "model", "old"));
  REQUIRE(file.has_value());
  std::filesystem::rename(write(folder / "new", "new"), folder / "model");
  CHECK(text_of(*file) == "old");
}

}  // namespace ebb::model
