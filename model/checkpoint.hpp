// model/checkpoint.hpp: an opened model: its files, its shape, its dense tensors and the catalog of its experts.
//
// Immutable once opened, so any thread may read it; shared by every card of a run. Weights stay in the mapped file, in the file's
// own quantisation; only the norms, a few KiB a layer, are copied out as floats.
#pragma once
#include "config/result.hpp"
#include "kernels/matmul.hpp"
#include "model/architecture.hpp"
#include "model/catalog.hpp"
#include "model/gguf.hpp"
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

namespace ebb::model {

// The dense tensors of one layer. Norms are owned vectors of float, empty where the family has none.
struct layer_weights {
  std::vector<float> attn_norm;                 // [d_model]
  kernels::weights attn_q, attn_k, attn_v;      // [n_heads * head_dim, d_model], [n_kv_heads * head_dim, d_model] twice
  std::vector<float> attn_q_norm, attn_k_norm;  // [head_dim]
  kernels::weights attn_output;                 // [d_model, n_heads * head_dim]
  std::vector<float> ffn_norm;                  // [d_model]
  kernels::weights router;                      // [n_experts, d_model], float
};

class checkpoint {
 public:
  // Called now and then while a file is read, with the share done in [0, 1].
  using progress_fn = std::function<void(double)>;

  // Opens a model: one file, or the first of a sharded one, whose others are found beside it.
  // Reads headers and norms, never the rest of the weights. Errors: those of gguf::open, find_architecture, read_shape and
  // catalog::make, the latter's for dense tensors too, and unsupported_architecture (a tensor that the family does not have).
  static result<std::shared_ptr<const checkpoint>> open(const std::filesystem::path& path);

  // The same for a file that is open already.
  static result<std::shared_ptr<const checkpoint>> make(gguf file);

  // Reads every byte of the weights once, so that later reads come from memory, or until `stop` is asked for. `progress` may be empty.
  void warm(const progress_fn& progress, const std::stop_token& stop = {}) const;

  const gguf& file() const noexcept { return file_; }
  const architecture& family() const noexcept { return *family_; }
  const shape& dims() const noexcept { return dims_; }
  const class catalog& experts() const noexcept { return experts_; }
  const layer_weights& layer(std::uint32_t index) const noexcept;                        // pre: index < n_layers (asserts)
  const kernels::weights& token_embedding() const noexcept { return token_embedding_; }  // [n_vocab, d_model]
  const std::vector<float>& output_norm() const noexcept { return output_norm_; }        // [d_model]
  const kernels::weights& output() const noexcept { return output_; }                    // [n_vocab, d_model]; the embedding where tied

 private:
  explicit checkpoint(gguf file) : file_(std::move(file)) {}
  result<void> read_dense_tensors();

  gguf file_;
  const architecture* family_ = nullptr;
  shape dims_{};
  class catalog experts_;
  std::vector<layer_weights> layers_;
  kernels::weights token_embedding_;
  std::vector<float> output_norm_;
  kernels::weights output_;
};

}  // namespace ebb::model
