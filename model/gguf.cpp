#include "model/gguf.hpp"
#include "model/gguf_convert.hpp"
#include "model/gguf_parser.hpp"
#include "config/utf8.hpp"
#include <cstdio>

namespace ebb::model {
namespace {

constexpr std::string_view key_split_no = "split.no";
constexpr std::string_view key_split_count = "split.count";
constexpr std::string_view key_split_tensors = "split.tensors.count";

// What a conversion takes, to end the sentence "... is needed".
template <class T>
constexpr std::string_view needed = "";
template <>
constexpr std::string_view needed<std::uint32_t> = "a whole number from 0 to 4294967295";
template <>
constexpr std::string_view needed<float> = "a floating-point number";
template <>
constexpr std::string_view needed<double> = "a number";
template <>
constexpr std::string_view needed<bool> = "true or false";
template <>
constexpr std::string_view needed<std::string_view> = "a string";
template <>
constexpr std::string_view needed<std::vector<std::string_view>> = "an array of strings";
template <>
constexpr std::string_view needed<std::vector<std::int32_t>> = "an array of whole numbers of 32 bits";
template <>
constexpr std::string_view needed<std::vector<float>> = "an array of floating-point numbers";

// "-00002-of-00003.gguf", as writers of shards name them; `index` counts from 0.
std::string shard_ending(std::uint32_t index, std::uint32_t count) {
  char text[40];
  std::snprintf(text, sizeof text, "-%05u-of-%05u.gguf", index + 1, count);
  return text;
}

// The path of shard `to`, from that of shard `from`; nothing when that is not named so.
std::optional<std::filesystem::path> sibling(const std::filesystem::path& path, std::uint32_t from, std::uint32_t to, std::uint32_t count) {
  std::string name = path.filename().string();
  const std::string ending = shard_ending(from, count);
  if (!name.ends_with(ending)) return std::nullopt;
  name.resize(name.size() - ending.size());
  return path.parent_path() / (name + shard_ending(to, count));
}

tl::unexpected<error> not_the_first(const std::filesystem::path& path, std::uint32_t index, std::uint32_t count) {
  const auto first = sibling(path, index, 0, count);
  return fail(errc::bad_value, path.string() + " is shard " + std::to_string(index + 1) + " of " + std::to_string(count) + "; open " +
                                   (first ? first->string() : "the first one, which ends in " + shard_ending(0, count)) + " instead.");
}

tl::unexpected<error> not_named_as_shard(const std::filesystem::path& path, std::uint32_t count) {
  return fail(errc::bad_value, path.string() + " is the first of " + std::to_string(count) + " shards, but its name does not end in " +
                                   shard_ending(0, count) + ", by which the others are found; give all of them their names back.");
}

}  // namespace

std::string shape_text(const gguf_tensor& tensor) {
  std::string out = "[";
  for (std::uint32_t i = 0; i < tensor.n_dims; ++i) out += (i == 0 ? "" : ", ") + std::to_string(tensor.dims[i]);
  return out + "]";
}

// --- opening

result<gguf> gguf::open(const std::filesystem::path& path) {
  gguf out;
  out.name_ = path.string();
  if (const auto done = out.map_shard(path); !done) return fail(done.error());
  const auto count = out.value_or<std::uint32_t>(key_split_count, 1);
  const auto index = out.value_or<std::uint32_t>(key_split_no, 0);
  if (!count) return fail(count.error());
  if (!index) return fail(index.error());
  if (*index != 0) return not_the_first(path, *index, *count);
  if (*count > 1) {
    if (const auto done = out.map_other_shards(*count); !done) return fail(done.error());
  }
  if (const auto done = out.index_tensors(); !done) return fail(done.error());
  return out;
}

result<gguf> gguf::parse(std::span<const std::byte> bytes, std::string name) {
  gguf out;
  out.name_ = std::move(name);
  if (const auto done = out.add_shard(bytes, out.name_); !done) return fail(done.error());
  const auto count = out.value_or<std::uint32_t>(key_split_count, 1);
  if (!count) return fail(count.error());
  if (*count > 1) {
    return fail(errc::bad_value, out.name_ + " is one of " + std::to_string(*count) + " shards; open the first from its path.");
  }
  if (const auto done = out.index_tensors(); !done) return fail(done.error());
  return out;
}

std::optional<file_place> gguf::place_of(std::span<const std::byte> bytes) const noexcept {
  for (const mapped_file& mapping : mappings_) {
    const auto all = mapping.bytes();
    if (bytes.data() < all.data() || bytes.data() + bytes.size() > all.data() + all.size()) continue;
    return file_place{mapping.descriptor(), static_cast<std::uint64_t>(bytes.data() - all.data())};
  }
  return std::nullopt;
}

result<void> gguf::map_shard(const std::filesystem::path& path) {
  auto mapping = mapped_file::open(path);
  if (!mapping) return fail(std::move(mapping.error()));
  const auto bytes = mapping->bytes();
  mappings_.push_back(*std::move(mapping));
  return add_shard(bytes, path);
}

result<void> gguf::map_other_shards(std::uint32_t count) {
  if (count > limits::shards_max) {
    return fail(errc::corrupt, name_ + " is corrupt: key \"split.count\" is " + std::to_string(count) + ", more than any model has.");
  }
  const std::filesystem::path first = shards_.front().path;
  for (std::uint32_t index = 1; index < count; ++index) {
    const auto path = sibling(first, 0, index, count);
    if (!path) return not_named_as_shard(first, count);
    if (const auto done = map_shard(*path); !done) {
      return fail(done.error().code, done.error().text + " It is shard " + std::to_string(index + 1) + " of " + std::to_string(count) +
                                         "; all of them must lie in one folder.");
    }
  }
  const auto n_tensors = value_or<std::uint32_t>(key_split_tensors, static_cast<std::uint32_t>(tensors_.size()));
  if (!n_tensors) return fail(n_tensors.error());
  if (*n_tensors != tensors_.size()) {
    return fail(errc::corrupt, name_ + ": its " + std::to_string(count) + " shards hold " + std::to_string(tensors_.size()) +
                                   " tensors, but key \"split.tensors.count\" says " + std::to_string(*n_tensors) +
                                   "; download all of them again.");
  }
  return {};
}

// The keys of a model are those of its first shard; the others have only what says which shard they are.
result<void> gguf::add_shard(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  auto contents = parse_gguf(bytes, path.string());
  if (!contents) return fail(std::move(contents.error()));
  const auto index = static_cast<std::uint32_t>(shards_.size());
  if (index == 0) {
    version_ = contents->version;
    entries_ = std::move(contents->entries);
    entries_by_key_ = std::move(contents->entries_by_key);
  } else if (const auto done = check_shard_keys(*contents, path, index); !done) {
    return done;
  }
  shards_.push_back({path, bytes.size()});
  for (gguf_tensor& tensor : contents->tensors) {
    tensor.shard = index;
    tensors_.push_back(tensor);
  }
  return {};
}

result<void> gguf::check_shard_keys(const gguf_contents& contents, const std::filesystem::path& path, std::uint32_t index) const {
  const auto same = [&contents](std::string_view key, std::uint32_t wanted) {
    const gguf_value* const value = contents.find(key);
    return value != nullptr && convert<std::uint32_t>(*value) == wanted;
  };
  const auto count = require<std::uint32_t>(key_split_count);
  if (!count) return fail(count.error());
  if (same(key_split_no, index) && same(key_split_count, *count)) return {};
  return fail(errc::corrupt, path.string() + " is named as shard " + std::to_string(index + 1) + " of " + std::to_string(*count) +
                                 ", but its keys \"split.no\" and \"split.count\" say otherwise; download it again.");
}

result<void> gguf::index_tensors() {
  tensors_by_name_ = name_index(tensors_, &gguf_tensor::name);
  if (const auto twice = tensors_by_name_.duplicate()) {
    return fail(errc::corrupt, name_ + " is corrupt: tensor " + in_quotes(*twice) + " is there twice; download or convert it again.");
  }
  return {};
}

// --- reading

const gguf_value* gguf::find(std::string_view key) const noexcept {
  const auto index = entries_by_key_.find(key);
  return index ? &entries_[*index].value : nullptr;
}

const gguf_tensor* gguf::find_tensor(std::string_view name) const noexcept {
  const auto index = tensors_by_name_.find(name);
  return index ? &tensors_[*index] : nullptr;
}

result<const gguf_tensor*> gguf::require_tensor(std::string_view name) const {
  const gguf_tensor* const tensor = find_tensor(name);
  if (tensor == nullptr) return missing("tensor", name);
  return tensor;
}

tl::unexpected<error> gguf::missing(std::string_view kind, std::string_view what) const {
  return fail(errc::missing_key, name_ + " has no " + std::string(kind) + " " + in_quotes(what) +
                                     ", which is needed; convert the model again with current tools.");
}

template <class T>
result<std::optional<T>> gguf::optional(std::string_view key) const {
  const gguf_value* const value = find(key);
  if (value == nullptr) return std::optional<T>();
  auto converted = convert<T>(*value);
  if (!converted) {
    return fail(errc::bad_value, name_ + ": key " + in_quotes(key) + " is " + to_text(*value) + ", but " + std::string(needed<T>) +
                                     " is needed; convert the model again with current tools.");
  }
  return converted;
}

template result<std::optional<std::uint32_t>> gguf::optional(std::string_view) const;
template result<std::optional<float>> gguf::optional(std::string_view) const;
template result<std::optional<double>> gguf::optional(std::string_view) const;
template result<std::optional<bool>> gguf::optional(std::string_view) const;
template result<std::optional<std::string_view>> gguf::optional(std::string_view) const;
template result<std::optional<std::vector<std::string_view>>> gguf::optional(std::string_view) const;
template result<std::optional<std::vector<std::int32_t>>> gguf::optional(std::string_view) const;
template result<std::optional<std::vector<float>>> gguf::optional(std::string_view) const;

}  // namespace ebb::model
