#include "model/inspection.hpp"
#include "model/architecture.hpp"
#include "model/chat_template.hpp"
#include "model/checkpoint.hpp"
#include "model/vocabulary.hpp"
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace ebb::model {
namespace {

constexpr std::uint64_t mib_bytes = 1u << 20;

// Texts and numbers of keys, leniently: a key that is absent or of another type is as good as empty here.
std::string text_of(const gguf& file, std::string_view key) { return std::string(file.value_or<std::string_view>(key, "").value_or("")); }
std::uint32_t number_of(const gguf& file, const std::string& key) { return file.value_or<std::uint32_t>(key, 0).value_or(0); }

// The layer, if the tensor holds the experts of one.
std::optional<std::uint32_t> layer_of_experts(const gguf_tensor& tensor) {
  const auto place = split_layer_tensor_name(tensor.name);
  if (!place || place->name.find("_exps.") == std::string_view::npos) return std::nullopt;
  return place->layer;
}

std::vector<format_share> count_formats(const gguf& file) {
  std::map<kernels::format, format_share> shares;
  for (const gguf_tensor& tensor : file.tensors()) {
    format_share& share = shares.try_emplace(tensor.format, format_share{tensor.format, 0, 0}).first->second;
    share.n_tensors += 1;
    share.size_bytes += tensor.size_bytes;
  }
  std::vector<format_share> out;
  for (const auto& [format, share] : shares) out.push_back(share);
  std::ranges::stable_sort(out, std::greater(), &format_share::size_bytes);
  return out;
}

void measure_experts(const gguf& file, inspection& out) {
  std::map<std::uint32_t, std::uint64_t> expert_bytes;  // of one expert, by layer
  for (const gguf_tensor& tensor : file.tensors()) {
    if (const auto layer = layer_of_experts(tensor)) {
      const std::uint64_t n_experts = tensor.dims[tensor.n_dims - 1];
      expert_bytes[*layer] += tensor.size_bytes / n_experts;
      out.experts_bytes += tensor.size_bytes;
    } else {
      out.dense_bytes += tensor.size_bytes;
    }
  }
  out.n_expert_layers = static_cast<std::uint32_t>(expert_bytes.size());
  if (expert_bytes.empty()) return;
  const auto [least, most] = std::ranges::minmax_element(expert_bytes, {}, &std::pair<const std::uint32_t, std::uint64_t>::second);
  out.expert_bytes_min = least->second;
  out.expert_bytes_max = most->second;
}

std::optional<error> find_obstacle(gguf file) {
  const auto vocabulary = read_vocabulary(file);
  const auto opened = checkpoint::make(std::move(file));
  if (!opened) return opened.error();
  if (!vocabulary) return vocabulary.error();
  return std::nullopt;
}

}  // namespace

std::uint64_t inspection::experts_in(std::uint64_t mib) const noexcept {
  if (expert_bytes_max == 0) return 0;
  const std::uint64_t in_model = std::uint64_t{n_expert_layers} * n_experts;
  const std::uint64_t slots = mib > UINT64_MAX / mib_bytes ? in_model : mib * mib_bytes / expert_bytes_max;
  return std::min(slots, in_model);
}

result<inspection> inspect(const std::filesystem::path& path) {
  auto file = gguf::open(path);
  if (!file) return fail(std::move(file.error()));
  inspection out;
  out.files.assign(file->shards().begin(), file->shards().end());
  for (const gguf_shard& shard : out.files) out.size_bytes += shard.size_bytes;
  out.version = file->version();
  out.architecture = text_of(*file, "general.architecture");
  out.name = text_of(*file, "general.name");
  for (const gguf_entry& entry : file->entries()) out.keys.push_back({std::string(entry.key), to_text(entry.value)});
  out.n_tensors = file->tensors().size();
  out.formats = count_formats(*file);
  out.n_layers = number_of(*file, out.architecture + ".block_count");
  out.n_experts = number_of(*file, out.architecture + ".expert_count");
  out.top_k = number_of(*file, out.architecture + ".expert_used_count");
  measure_experts(*file, out);
  out.chat_obstacle = read_chat_template(*file).obstacle;
  out.obstacle = find_obstacle(*std::move(file));
  return out;
}

}  // namespace ebb::model
