// model/tensor_checks.hpp: the tensors a model must have, with the shapes and formats its keys and our kernels ask for.
//
// Errors: missing_key (absent), corrupt (the shape contradicts the keys), unsupported_format (no kernels, or not a float where
// floats are needed). Each names the file and the tensor.
#pragma once
#include "config/result.hpp"
#include "kernels/matmul.hpp"
#include "model/gguf.hpp"
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace ebb::model {

// Dimensions in the file's order, the contiguous one first; those that are not given are 1.
using tensor_dims = std::initializer_list<std::uint64_t>;

// A tensor of this shape, in a format that has kernels.
result<const gguf_tensor*> require_tensor_of(const gguf& file, std::string_view name, tensor_dims dims);

// The weights of a matrix of n_rows outputs and n_cols inputs.
result<kernels::weights> require_matrix(const gguf& file, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols);

// The same, but F32, F16 or BF16.
result<kernels::weights> require_float_matrix(const gguf& file, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols);

// The values of a vector that is stored as F32, F16 or BF16.
result<std::vector<float>> require_vector(const gguf& file, std::string_view name, std::uint64_t n_values);

}  // namespace ebb::model
