// model/gguf.hpp: a GGUF file, versions 2 and 3, little-endian, in one piece or in shards.
//
// Nothing is copied: keys, strings and weights are views into the mapped file, so a vocabulary of 150 000 tokens costs nothing
// until it is read. Every count, length, type and offset is checked when a file is opened, so later reads need no checks.
// Immutable once opened, so any thread may read it. Views stay valid when the gguf is moved, and end with it.
#pragma once
#include "config/limits.hpp"
#include "config/result.hpp"
#include "kernels/format.hpp"
#include "model/mapped_file.hpp"
#include "model/name_index.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::model {

// The types of metadata values, numbered as GGUF numbers them.
enum class gguf_type : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

// "uint8", "string", "array", ...
std::string_view to_string(gguf_type type) noexcept;

// A metadata value as it lies in the file.
struct gguf_value {
  gguf_type type;
  gguf_type element;                 // of an array; otherwise the type itself. Never array: nested arrays are refused
  std::uint64_t count;               // elements of an array; otherwise 1
  std::span<const std::byte> bytes;  // the elements one after another; a string has its length, 8 bytes, in front
};

struct gguf_entry {
  std::string_view key;
  gguf_value value;
};

struct gguf_tensor {
  std::string_view name;
  kernels::format format;
  std::uint32_t n_dims;                                           // 1 to 4
  std::array<std::uint64_t, limits::tensor_dimensions_max> dims;  // > 0; the first is contiguous; 1 from n_dims on
  std::uint64_t size_bytes;
  const std::byte* data;
  std::uint32_t shard;  // index into shards()
};

// A value as a person reads it: "qwen3moe" in quotes, 0.5, true, "array of 4096 string".
std::string to_text(const gguf_value& value);

// "[256, 1024, 32]", without the dimensions the tensor does not have.
std::string shape_text(const gguf_tensor& tensor);

struct gguf_contents;  // of one file: model/gguf_parser.hpp

struct gguf_shard {
  std::filesystem::path path;
  std::uint64_t size_bytes;
};

// Where bytes of a model lie in a file that is open.
struct file_place {
  int descriptor;
  std::uint64_t offset_bytes;
};

class gguf {
 public:
  // Opens one file, or the first of a sharded model, whose others (NAME-00002-of-00003.gguf) are found beside it.
  // Errors: file_unreadable, not_gguf, unsupported_version, truncated, corrupt, unsupported_format (a tensor type that is not
  // in the table of formats), bad_value (a shard that is not the first, or whose name does not say which it is).
  static result<gguf> open(const std::filesystem::path& path);

  // The same for a whole file in memory, which the caller keeps alive. `name` stands for the path in errors.
  // Further error: bad_value (one of several shards: they are only found from a path).
  static result<gguf> parse(std::span<const std::byte> bytes, std::string name);

  std::uint32_t version() const noexcept { return version_; }
  const std::string& name() const noexcept { return name_; }  // the path of the first file, for errors
  std::span<const gguf_shard> shards() const noexcept { return shards_; }
  std::span<const gguf_entry> entries() const noexcept { return entries_; }   // of the first file, in its order
  std::span<const gguf_tensor> tensors() const noexcept { return tensors_; }  // of all files, in their order

  // Null if absent. O(log n).
  const gguf_value* find(std::string_view key) const noexcept;
  const gguf_tensor* find_tensor(std::string_view name) const noexcept;

  // Of bytes that lie in the mapping of a file; nothing after parse().
  std::optional<file_place> place_of(std::span<const std::byte> bytes) const noexcept;

  // Error: missing_key.
  result<const gguf_tensor*> require_tensor(std::string_view name) const;

  // Reads a key as T: std::uint32_t (any integer type, a value in range), float (float32 or float64), double (any number), bool,
  // std::string_view, std::vector<std::string_view>, std::vector<std::int32_t> (any integer type, values in range),
  // std::vector<float>. Errors: bad_value (another type, or out of range), missing_key (from require).
  template <class T>
  result<std::optional<T>> optional(std::string_view key) const;
  template <class T>
  result<T> require(std::string_view key) const;
  template <class T>
  result<T> value_or(std::string_view key, T fallback) const;

 private:
  gguf() = default;
  result<void> add_shard(std::span<const std::byte> bytes, const std::filesystem::path& path);
  result<void> map_shard(const std::filesystem::path& path);
  result<void> map_other_shards(std::uint32_t count);
  result<void> check_shard_keys(const gguf_contents& contents, const std::filesystem::path& path, std::uint32_t index) const;
  result<void> index_tensors();
  tl::unexpected<error> missing(std::string_view kind, std::string_view what) const;

  std::string name_;
  std::uint32_t version_ = 0;
  std::vector<mapped_file> mappings_;  // empty after parse()
  std::vector<gguf_shard> shards_;
  std::vector<gguf_entry> entries_;
  std::vector<gguf_tensor> tensors_;
  name_index entries_by_key_;
  name_index tensors_by_name_;
};

template <class T>
result<T> gguf::require(std::string_view key) const {
  auto found = optional<T>(key);
  if (!found) return fail(std::move(found.error()));
  if (!*found) return missing("key", key);
  return *std::move(*found);
}

template <class T>
result<T> gguf::value_or(std::string_view key, T fallback) const {
  auto found = optional<T>(key);
  if (!found) return fail(std::move(found.error()));
  return std::move(*found).value_or(std::move(fallback));
}

}  // namespace ebb::model
