#include "model/gguf_parser.hpp"
#include "config/limits.hpp"
#include "model/gguf_convert.hpp"
#include "model/gguf_cursor.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <bit>
#include <limits>

namespace ebb::model {
namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::uint32_t alignment_default = 32;                // the format's
constexpr std::uint64_t entry_bytes_min = 8 + 4 + 1;           // an empty key, a type, a value of one byte
constexpr std::uint64_t tensor_bytes_min = 8 + 4 + 8 + 4 + 8;  // an empty name, n_dims, one dimension, format, offset

result<void> check_magic(gguf_cursor& in, std::span<const std::byte> bytes, const std::string& path) {
  const auto head = bytes.first(std::min(bytes.size(), magic.size()));
  const auto same = [](std::byte byte, char letter) { return byte == static_cast<std::byte>(letter); };
  if (!std::ranges::equal(head, magic.substr(0, head.size()), same)) {
    return fail(errc::not_gguf, path + " is not a GGUF file: it does not start with \"GGUF\". Give the path of a .gguf model file.");
  }
  const auto taken = in.take(magic.size(), "the magic number");
  if (!taken) return fail(taken.error());
  return {};
}

result<std::uint32_t> read_version(gguf_cursor& in, const std::string& path) {
  const auto version = in.read<std::uint32_t>("the version");
  if (!version || *version == 2 || *version == 3) return version;
  const std::uint32_t swapped = __builtin_bswap32(*version);
  if (swapped == 2 || swapped == 3) {
    return fail(errc::unsupported_version, path + " is a big-endian GGUF file; convert it for a little-endian machine.");
  }
  return fail(errc::unsupported_version, path + " is of GGUF version " + std::to_string(*version) +
                                             "; versions 2 and 3 are supported. Convert it again with current tools.");
}

// --- metadata

result<gguf_type> read_type(gguf_cursor& in, std::string_view what) {
  const auto number = in.read<std::uint32_t>(what);
  if (!number) return fail(number.error());
  if (*number > static_cast<std::uint32_t>(gguf_type::float64)) {
    return in.corrupt(what, "has type " + std::to_string(*number) + ", which does not exist");
  }
  return static_cast<gguf_type>(*number);
}

result<void> skip_strings(gguf_cursor& in, std::uint64_t count, std::string_view what) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto skipped = in.read_string(what);
    if (!skipped) return fail(skipped.error());
  }
  return {};
}

// Passes over `count` elements, of which the file is known to have room for the smallest possible ones.
result<void> skip_elements(gguf_cursor& in, gguf_type type, std::uint64_t count, std::string_view what) {
  if (type == gguf_type::string) return skip_strings(in, count, what);
  const auto bytes = in.take(count * size_of(type), what);
  if (!bytes) return fail(bytes.error());
  const auto is_boolean = [](std::byte byte) { return byte <= std::byte{1}; };
  if (type == gguf_type::boolean && !std::ranges::all_of(*bytes, is_boolean)) return in.corrupt(what, "is neither true nor false");
  return {};
}

result<gguf_value> read_value(gguf_cursor& in, std::string_view what) {
  const auto type = read_type(in, what);
  if (!type) return fail(type.error());
  gguf_value value{*type, *type, 1, {}};
  if (value.type == gguf_type::array) {
    const auto element = read_type(in, what);
    if (!element) return fail(element.error());
    if (*element == gguf_type::array) return in.corrupt(what, "is an array of arrays, which no model has");
    const std::uint64_t bytes_each = *element == gguf_type::string ? sizeof(std::uint64_t) : size_of(*element);
    const auto count = in.read_count(what, bytes_each, std::numeric_limits<std::uint64_t>::max());
    if (!count) return fail(count.error());
    value.element = *element;
    value.count = *count;
  }
  const std::uint64_t start = in.offset();
  if (const auto skipped = skip_elements(in, value.element, value.count, what); !skipped) return fail(skipped.error());
  value.bytes = in.since(start);
  return value;
}

result<void> read_entries(gguf_cursor& in, std::uint64_t count, gguf_contents& out) {
  out.entries.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto key = in.read_string("key " + std::to_string(i));
    if (!key) return fail(key.error());
    const auto value = read_value(in, "the value of key " + in_quotes(*key));
    if (!value) return fail(value.error());
    out.entries.push_back({*key, *value});
  }
  out.entries_by_key = name_index(out.entries, &gguf_entry::key);
  if (const auto twice = out.entries_by_key.duplicate()) return in.corrupt("key " + in_quotes(*twice), "is given twice");
  return {};
}

result<std::uint64_t> read_alignment(const gguf_cursor& in, const gguf_contents& contents) {
  const gguf_value* const value = contents.find("general.alignment");
  if (value == nullptr) return alignment_default;
  const auto alignment = convert<std::uint32_t>(*value);
  if (!alignment || !std::has_single_bit(*alignment)) {
    return in.corrupt("key \"general.alignment\"", "is " + to_text(*value) + ", which is no power of two");
  }
  return *alignment;
}

// --- tensors

// A tensor as the header describes it; `offset` counts from the start of the data.
struct described_tensor {
  gguf_tensor tensor;
  std::uint64_t offset;
};

result<void> read_dims(gguf_cursor& in, gguf_tensor& tensor, std::string_view what) {
  const auto n_dims = in.read<std::uint32_t>(what);
  if (!n_dims) return fail(n_dims.error());
  if (*n_dims == 0 || *n_dims > limits::tensor_dimensions_max) {
    return in.corrupt(what, "has " + std::to_string(*n_dims) + " dimensions; 1 to 4 are possible");
  }
  tensor.n_dims = *n_dims;
  tensor.dims.fill(1);
  for (std::uint32_t i = 0; i < *n_dims; ++i) {
    const auto dim = in.read<std::uint64_t>(what);
    if (!dim) return fail(dim.error());
    if (*dim == 0) return in.corrupt(what, "has a dimension of 0");
    tensor.dims[i] = *dim;
  }
  return {};
}

result<void> read_format(gguf_cursor& in, gguf_tensor& tensor, std::string_view what, const std::string& path) {
  const auto number = in.read<std::uint32_t>(what);
  if (!number) return fail(number.error());
  if (!kernels::format_known(*number)) {
    return fail(errc::unsupported_format, path + ": " + std::string(what) + " has type " + std::to_string(*number) +
                                              ", which this version does not know; choose another quantisation of the model.");
  }
  tensor.format = static_cast<kernels::format>(*number);
  return {};
}

// Shape and format give the size: rows of whole blocks, and no more bytes than 64 bits count.
result<void> set_size(const gguf_cursor& in, gguf_tensor& tensor, std::string_view what) {
  const kernels::format_info& format = kernels::info(tensor.format);
  if (tensor.dims[0] % format.values_per_block != 0) {
    return in.corrupt(
        what, "has rows of " + std::to_string(tensor.dims[0]) + " values, which are no whole blocks of " + std::string(format.name));
  }
  std::uint64_t size_bytes = tensor.dims[0] / format.values_per_block;
  bool overflow = __builtin_mul_overflow(size_bytes, std::uint64_t{format.bytes_per_block}, &size_bytes);
  for (std::uint32_t i = 1; i < tensor.n_dims; ++i) {
    overflow = __builtin_mul_overflow(size_bytes, tensor.dims[i], &size_bytes) || overflow;
  }
  if (overflow) return in.corrupt(what, "has the shape " + shape_text(tensor) + ", which is larger than any file");
  tensor.size_bytes = size_bytes;
  return {};
}

result<described_tensor> read_tensor(gguf_cursor& in, std::uint64_t index, const std::string& path) {
  const auto name = in.read_string("the name of tensor " + std::to_string(index));
  if (!name) return fail(name.error());
  const std::string what = "tensor " + in_quotes(*name);
  described_tensor out{};
  out.tensor.name = *name;
  if (const auto done = read_dims(in, out.tensor, what); !done) return fail(done.error());
  if (const auto done = read_format(in, out.tensor, what, path); !done) return fail(done.error());
  if (const auto done = set_size(in, out.tensor, what); !done) return fail(done.error());
  const auto offset = in.read<std::uint64_t>(what);
  if (!offset) return fail(offset.error());
  out.offset = *offset;
  return out;
}

result<std::vector<described_tensor>> read_tensors(gguf_cursor& in, std::uint64_t count, const std::string& path) {
  std::vector<described_tensor> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto described = read_tensor(in, i, path);
    if (!described) return fail(std::move(described.error()));
    out.push_back(*described);
  }
  return out;
}

// --- where the tensors lie

result<void> place(described_tensor& described, std::span<const std::byte> data, std::uint64_t alignment, const std::string& path) {
  auto& [tensor, offset] = described;
  const std::string extent = "the data of tensor " + in_quotes(tensor.name) + ", " + std::to_string(tensor.size_bytes) + " bytes at byte " +
                             std::to_string(offset) + " of the data section, ";
  if (offset % alignment != 0) {
    return fail(errc::corrupt, path + " is corrupt: " + extent + "is not aligned to " + std::to_string(alignment) +
                                   " bytes; download or convert it again.");
  }
  if (offset > data.size() || tensor.size_bytes > data.size() - offset) {
    return fail(errc::truncated, path + " is cut short: " + extent + "ends past the last byte of the file; download or copy it again.");
  }
  tensor.data = data.data() + offset;
  return {};
}

result<void> check_overlaps(const std::vector<gguf_tensor>& tensors, const std::string& path) {
  std::vector<const gguf_tensor*> by_address;
  by_address.reserve(tensors.size());
  for (const gguf_tensor& tensor : tensors) by_address.push_back(&tensor);
  std::ranges::sort(by_address, {}, &gguf_tensor::data);
  const auto overlap = [](const gguf_tensor* before, const gguf_tensor* after) { return before->data + before->size_bytes > after->data; };
  const auto found = std::ranges::adjacent_find(by_address, overlap);
  if (found == by_address.end()) return {};
  return fail(errc::corrupt, path + " is corrupt: tensors " + in_quotes((*found)->name) + " and " + in_quotes((*std::next(found))->name) +
                                 " share bytes; download or convert it again.");
}

std::span<const std::byte> data_section(std::span<const std::byte> bytes, std::uint64_t header_bytes, std::uint64_t alignment) {
  const std::uint64_t start = (header_bytes + alignment - 1) / alignment * alignment;
  return bytes.subspan(std::min<std::uint64_t>(start, bytes.size()));
}

}  // namespace

const gguf_value* gguf_contents::find(std::string_view key) const noexcept {
  const auto index = entries_by_key.find(key);
  return index ? &entries[*index].value : nullptr;
}

result<gguf_contents> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  gguf_cursor in(bytes, path);
  gguf_contents out{};
  if (const auto done = check_magic(in, bytes, path); !done) return fail(done.error());
  const auto version = read_version(in, path);
  if (!version) return fail(version.error());
  out.version = *version;
  const auto n_tensors = in.read_count("the number of tensors", tensor_bytes_min, limits::gguf_tensors_max);
  if (!n_tensors) return fail(n_tensors.error());
  const auto n_entries = in.read_count("the number of keys", entry_bytes_min, limits::gguf_keys_max);
  if (!n_entries) return fail(n_entries.error());
  if (const auto done = read_entries(in, *n_entries, out); !done) return fail(done.error());
  const auto alignment = read_alignment(in, out);
  if (!alignment) return fail(alignment.error());

  auto described = read_tensors(in, *n_tensors, path);
  if (!described) return fail(std::move(described.error()));
  const auto data = data_section(bytes, in.offset(), *alignment);
  out.tensors.reserve(described->size());
  for (described_tensor& each : *described) {
    if (const auto done = place(each, data, *alignment, path); !done) return fail(done.error());
    out.tensors.push_back(each.tensor);
  }
  if (const auto done = check_overlaps(out.tensors, path); !done) return fail(done.error());
  return out;
}

}  // namespace ebb::model
