// model/inspection.hpp: what a model file holds, for people who choose one: also for models that cannot be run, and then why.
//
// Experts are found by the name of their tensors ("blk.N.ffn_..._exps..."), which all families of GGUF share.
#pragma once
#include "config/result.hpp"
#include "kernels/format.hpp"
#include "model/gguf.hpp"
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ebb::model {

struct format_share {
  kernels::format format;
  std::uint64_t n_tensors;
  std::uint64_t size_bytes;
};

struct key_text {
  std::string key;
  std::string value;  // to_text(): arrays by their size
};

struct inspection {
  std::vector<gguf_shard> files;
  std::uint64_t size_bytes = 0;  // of all files
  std::uint32_t version = 0;     // of GGUF
  std::string architecture;      // general.architecture and general.name, as the file has them; empty where absent
  std::string name;
  std::vector<key_text> keys;  // in the order of the file
  std::uint64_t n_tensors = 0;
  std::vector<format_share> formats;  // most bytes first

  std::uint32_t n_layers = 0;          // what follows is 0 where the file does not say
  std::uint32_t n_experts = 0;         // in a layer
  std::uint32_t top_k = 0;             // of them used for a token
  std::uint32_t n_expert_layers = 0;   // layers that have experts
  std::uint64_t expert_bytes_min = 0;  // of one expert, over the layers that have them
  std::uint64_t expert_bytes_max = 0;
  std::uint64_t experts_bytes = 0;  // of all experts
  std::uint64_t dense_bytes = 0;    // of all other tensors

  std::optional<error> obstacle;       // why the model cannot be run
  std::optional<error> chat_obstacle;  // why conversations take the plain form, not that of the model's own template

  // How many experts fit into `mib` MiB of slots, each as large as the largest expert.
  std::uint64_t experts_in(std::uint64_t mib) const noexcept;
};

// Reads the header only. Errors: those of gguf::open; whatever else is wrong with a model is its obstacle.
result<inspection> inspect(const std::filesystem::path& path);

}  // namespace ebb::model
