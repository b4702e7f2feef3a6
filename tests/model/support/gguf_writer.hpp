// tests/model/support/gguf_writer.hpp: GGUF files for tests, well-formed unless a test bends a field.
#pragma once
#include "model/gguf_writer.hpp"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model::test {

using model::append;
using model::append_value;
using model::byte_vector;

struct written_tensor {
  std::string name;
  std::vector<std::uint64_t> dims;
  std::uint32_t format;
  byte_vector data;
  std::optional<std::uint64_t> offset;  // instead of the next free place
};

struct gguf_writer : gguf_keys {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t alignment = gguf_alignment;  // of the data; set() the key beside it
  std::optional<std::uint64_t> n_tensors;    // instead of the true counts
  std::optional<std::uint64_t> n_entries;
  std::vector<written_tensor> tensors;

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
    append_head(out, magic, version, n_tensors.value_or(tensors.size()), n_entries.value_or(entries.size()));
    for (const entry& each : entries) append_entry(out, each);
    std::uint64_t next = 0;
    for (const written_tensor& each : tensors) {
      append_tensor(out, each.name, each.dims, each.format, each.offset.value_or(next));
      next = padded(next + each.data.size());
    }
    return out;
  }
};

}  // namespace ebb::model::test
