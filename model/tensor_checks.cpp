#include "model/tensor_checks.hpp"
#include "kernels/dequantize.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <string>

namespace ebb::model {
namespace {

constexpr std::uint32_t format_numbers_end = 256;  // formats are numbered below this, with gaps

bool is_float(kernels::format type) noexcept {
  return type == kernels::format::f32 || type == kernels::format::f16 || type == kernels::format::bf16;
}

bool has_kernels(kernels::format type) noexcept { return kernels::info(type).has_kernels; }

// "F32, F16, Q4_0, ...": the formats that are `accepted`.
std::string names_of(bool (*accepted)(kernels::format)) {
  std::string out;
  for (std::uint32_t number = 0; number < format_numbers_end; ++number) {
    const auto type = static_cast<kernels::format>(number);
    if (kernels::format_known(number) && accepted(type)) out += (out.empty() ? "" : ", ") + std::string(kernels::info(type).name);
  }
  return out;
}

result<const gguf_tensor*> require_tensor_in(const gguf& file, std::string_view name, tensor_dims dims, bool (*accepted)(kernels::format)) {
  const auto found = file.require_tensor(name);
  if (!found) return found;
  const gguf_tensor& tensor = **found;
  gguf_tensor wanted{};
  wanted.n_dims = static_cast<std::uint32_t>(dims.size());
  wanted.dims.fill(1);
  std::ranges::copy(dims, wanted.dims.begin());
  if (tensor.dims != wanted.dims) {
    return fail(errc::corrupt, file.name() + ": tensor " + in_quotes(name) + " has the shape " + shape_text(tensor) +
                                   ", but the keys of the file ask for " + shape_text(wanted) + "; convert the model again.");
  }
  if (!accepted(tensor.format)) {
    return fail(errc::unsupported_format, file.name() + ": tensor " + in_quotes(name) + " has type " +
                                              std::string(kernels::info(tensor.format).name) + "; supported are: " + names_of(accepted) +
                                              ". Choose another quantisation of the model.");
  }
  return found;
}

result<kernels::weights> matrix_in(const gguf& file, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols,
                                   bool (*accepted)(kernels::format)) {
  return require_tensor_in(file, name, {n_cols, n_rows}, accepted).map([&](const gguf_tensor* tensor) {
    return kernels::weights{tensor->data, tensor->format, static_cast<std::uint32_t>(n_rows), static_cast<std::uint32_t>(n_cols)};
  });
}

}  // namespace

result<const gguf_tensor*> require_tensor_of(const gguf& file, std::string_view name, tensor_dims dims) {
  return require_tensor_in(file, name, dims, has_kernels);
}

result<kernels::weights> require_matrix(const gguf& file, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols) {
  return matrix_in(file, name, n_rows, n_cols, has_kernels);
}

result<kernels::weights> require_float_matrix(const gguf& file, std::string_view name, std::uint64_t n_rows, std::uint64_t n_cols) {
  return matrix_in(file, name, n_rows, n_cols, is_float);
}

result<std::vector<float>> require_vector(const gguf& file, std::string_view name, std::uint64_t n_values) {
  return require_tensor_in(file, name, {n_values}, is_float).map([n_values](const gguf_tensor* tensor) {
    std::vector<float> values(n_values);
    kernels::dequantize(tensor->format, tensor->data, n_values, values.data());
    return values;
  });
}

}  // namespace ebb::model
