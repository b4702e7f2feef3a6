// model/gguf_writer.hpp: the header of a GGUF file, version 3: its keys, and where each tensor lies behind them.
//
// The weights are their owner's to write, at the offsets that lay_out() gives: a file may be far larger than memory.
#pragma once
#include "kernels/format.hpp"
#include "model/gguf.hpp"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ebb::model {

using byte_vector = std::vector<std::byte>;

inline constexpr std::uint64_t gguf_alignment = 32;  // of the data, where no key says otherwise

void append(byte_vector& out, const void* from, std::size_t size_bytes);

// A value as it stands in a file: a number as it is, a string with its length in front.
template <class T>
void append_value(byte_vector& out, const T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    append(out, &value, sizeof value);
  } else {
    const std::string_view text = value;
    append_value(out, std::uint64_t{text.size()});
    append(out, text.data(), text.size());
  }
}

template <class T>
constexpr gguf_type type_of() {
  if (std::is_same_v<T, std::uint8_t>) return gguf_type::uint8;
  if (std::is_same_v<T, std::int8_t>) return gguf_type::int8;
  if (std::is_same_v<T, std::uint16_t>) return gguf_type::uint16;
  if (std::is_same_v<T, std::int16_t>) return gguf_type::int16;
  if (std::is_same_v<T, std::uint32_t>) return gguf_type::uint32;
  if (std::is_same_v<T, std::int32_t>) return gguf_type::int32;
  if (std::is_same_v<T, std::uint64_t>) return gguf_type::uint64;
  if (std::is_same_v<T, std::int64_t>) return gguf_type::int64;
  if (std::is_same_v<T, float>) return gguf_type::float32;
  if (std::is_same_v<T, double>) return gguf_type::float64;
  if (std::is_same_v<T, bool>) return gguf_type::boolean;
  return gguf_type::string;
}

// The keys of a file, in the order in which they were first set.
struct gguf_keys {
  struct entry {
    std::string key;
    std::uint32_t type;  // a gguf_type
    byte_vector value;   // behind the type
  };
  std::vector<entry> entries;

  // A value of T's type, in the place of the key's former one or at the end.
  template <class T>
  void set(const std::string& key, const T& value) {
    byte_vector bytes;
    append_value(bytes, value);
    set_raw(key, static_cast<std::uint32_t>(type_of<T>()), std::move(bytes));
  }
  template <class T>
  void set_array(const std::string& key, const std::vector<T>& values) {
    byte_vector bytes;
    append_value(bytes, static_cast<std::uint32_t>(type_of<T>()));
    append_value(bytes, std::uint64_t{values.size()});
    for (const T& value : values) append_value(bytes, value);
    set_raw(key, static_cast<std::uint32_t>(gguf_type::array), std::move(bytes));
  }
  void set_raw(const std::string& key, std::uint32_t type, byte_vector value);
  void erase(std::string_view key);
};

// The parts of a header, one after another: this, then append_entry for every key, then append_tensor for every tensor.
void append_head(byte_vector& out, std::string_view magic, std::uint32_t version, std::uint64_t n_tensors, std::uint64_t n_entries);
void append_entry(byte_vector& out, const gguf_keys::entry& entry);
// `offset` counts from the start of the data, which begins at the next multiple of the alignment behind the header.
void append_tensor(byte_vector& out, std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t format, std::uint64_t offset);

struct tensor_plan {
  std::string name;
  std::vector<std::uint64_t> dims;  // 1 to 4, each > 0; the first is contiguous, and whole blocks of the format
  kernels::format format;

  std::uint64_t n_values() const noexcept;
  std::uint64_t size_bytes() const noexcept { return kernels::bytes_of(format, n_values()); }
};

struct gguf_layout {
  byte_vector header;                  // up to where the data begins
  std::vector<std::uint64_t> offsets;  // of each tensor, from the start of the file
  std::uint64_t size_bytes;            // of the file
};

// Pre: `keys` has no general.alignment.
gguf_layout lay_out(const gguf_keys& keys, const std::vector<tensor_plan>& tensors);

}  // namespace ebb::model
