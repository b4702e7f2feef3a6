#include "model/gguf_writer.hpp"
#include <algorithm>
#include <bit>

namespace ebb::model {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

constexpr std::uint32_t version_written = 3;

std::uint64_t aligned(std::uint64_t size_bytes) { return (size_bytes + gguf_alignment - 1) / gguf_alignment * gguf_alignment; }

}  // namespace

void append(byte_vector& out, const void* from, std::size_t size_bytes) {
  const auto* bytes = static_cast<const std::byte*>(from);
  out.insert(out.end(), bytes, bytes + size_bytes);
}

void gguf_keys::set_raw(const std::string& key, std::uint32_t type, byte_vector value) {
  const auto found = std::ranges::find(entries, key, &entry::key);
  if (found == entries.end()) {
    entries.push_back({key, type, std::move(value)});
  } else {
    *found = {key, type, std::move(value)};
  }
}

void gguf_keys::erase(std::string_view key) {
  std::erase_if(entries, [&](const entry& each) { return each.key == key; });
}

void append_head(byte_vector& out, std::string_view magic, std::uint32_t version, std::uint64_t n_tensors, std::uint64_t n_entries) {
  append(out, magic.data(), magic.size());
  append_value(out, version);
  append_value(out, n_tensors);
  append_value(out, n_entries);
}

void append_entry(byte_vector& out, const gguf_keys::entry& entry) {
  append_value(out, entry.key);
  append_value(out, entry.type);
  append(out, entry.value.data(), entry.value.size());
}

void append_tensor(byte_vector& out, std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t format, std::uint64_t offset) {
  append_value(out, name);
  append_value(out, static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t dim : dims) append_value(out, dim);
  append_value(out, format);
  append_value(out, offset);
}

std::uint64_t tensor_plan::n_values() const noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) count *= dim;
  return count;
}

gguf_layout lay_out(const gguf_keys& keys, const std::vector<tensor_plan>& tensors) {
  gguf_layout out{};
  append_head(out.header, "GGUF", version_written, tensors.size(), keys.entries.size());
  for (const gguf_keys::entry& entry : keys.entries) append_entry(out.header, entry);
  std::uint64_t next = 0;
  for (const tensor_plan& tensor : tensors) {
    append_tensor(out.header, tensor.name, tensor.dims, static_cast<std::uint32_t>(tensor.format), next);
    out.offsets.push_back(next);
    next = aligned(next + tensor.size_bytes());
  }
  out.header.resize(aligned(out.header.size()));
  for (std::uint64_t& offset : out.offsets) offset += out.header.size();
  out.size_bytes = out.header.size() + next;
  return out;
}

}  // namespace ebb::model
