// tests/model/support/gguf_writer.hpp: GGUF files for tests, well-formed unless a test bends a field.
#pragma once
#include "model/gguf.hpp"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ebb::model::test {

using byte_vector = std::vector<std::byte>;

inline void append(byte_vector& out, const void* from, std::size_t size_bytes) {
  const auto* bytes = static_cast<const std::byte*>(from);
  out.insert(out.end(), bytes, bytes + size_bytes);
}

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

struct written_entry {
  std::string key;
  std::uint32_t type;
  byte_vector value;  // behind the type
};

struct written_tensor {
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint32_t format;
  byte_vector data;
  std::optional<std::uint64_t> offset;  // instead of the next free place
};

struct gguf_writer {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;            // of the data; set() the key beside it
  std::optional<std::uint64_t> n_tensors;  // instead of the true counts
  std::optional<std::uint64_t> n_entries;
  std::vector<written_entry> entries;
  std::vector<written_tensor> tensors;

  // A key with a value of T's type, in the place of one of that name or at the end.
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
  void set_raw(const std::string& key, std::uint32_t type, byte_vector value) {
    const auto found = std::ranges::find(entries, key, &written_entry::key);
    if (found == entries.end()) {
      entries.push_back({key, type, std::move(value)});
    } else {
      *found = {key, type, std::move(value)};
    }
  }
  void erase(std::string_view key) {
    std::erase_if(entries, [&](const written_entry& entry) { return entry.key == key; });
  }

  // A tensor whose bytes count up from its position in the file, so that no two are the same.
  written_tensor& add_tensor(const std::string& name, std::vector<std::uint64_t> dims, kernels::format format) {
    std::uint64_t n_values = 1;
    for (const std::uint64_t dim : dims) n_values *= dim;
    byte_vector data(kernels::bytes_of(format, n_values));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(tensors.size() * 16 + i);
    tensors.push_back({name, std::move(dims), static_cast<std::uint32_t>(format), std::move(data), std::nullopt});
    return tensors.back();
  }
  written_tensor& tensor(std::string_view name) { return *std::ranges::find(tensors, name, &written_tensor::name); }
  void erase_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const written_tensor& each) { return each.name == name; });
  }

  byte_vector bytes() const {
    byte_vector out = header();
    std::uint64_t next = 0;
    const std::uint64_t data_begin = padded(out.size());
    for (const written_tensor& each : tensors) {
      out.resize(std::max<std::size_t>(out.size(), data_begin + next));
      append(out, each.data.data(), each.data.size());
      next = padded(next + each.data.size());
    }
    return out;
  }

  std::filesystem::path write(const std::filesystem::path& path) const {
    const byte_vector all = bytes();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
    return path;
  }

 private:
  std::uint64_t padded(std::uint64_t size_bytes) const { return (size_bytes + alignment - 1) / alignment * alignment; }

  byte_vector header() const {
    byte_vector out;
    append(out, magic.data(), magic.size());
    append_value(out, version);
    append_value(out, n_tensors.value_or(tensors.size()));
    append_value(out, n_entries.value_or(entries.size()));
    for (const written_entry& entry : entries) {
      append_value(out, entry.key);
      append_value(out, entry.type);
      append(out, entry.value.data(), entry.value.size());
    }
    std::uint64_t next = 0;
    for (const written_tensor& each : tensors) {
      append_value(out, each.name);
      append_value(out, static_cast<std::uint32_t>(each.dims.size()));
      for (const std::uint64_t dim : each.dims) append_value(out, dim);
      append_value(out, each.format);
      append_value(out, each.offset.value_or(next));
      next = padded(next + each.data.size());
    }
    return out;
  }
};

}  // namespace ebb::model::test
