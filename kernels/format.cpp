#include "kernels/format.hpp"
#include "config/assert.hpp"
#include <array>

namespace ebb::kernels {
namespace {

constexpr std::array table{
    format_info{format::f32, "F32", 1, 4, true},
    format_info{format::f16, "F16", 1, 2, true},
    format_info{format::q4_0, "Q4_0", 32, sizeof(block_q4_0), true},
    format_info{format::q4_1, "Q4_1", 32, sizeof(block_q4_1), true},
    format_info{format::q5_0, "Q5_0", 32, sizeof(block_q5_0), true},
    format_info{format::q5_1, "Q5_1", 32, sizeof(block_q5_1), true},
    format_info{format::q8_0, "Q8_0", 32, sizeof(block_q8_0), true},
    format_info{format::q8_1, "Q8_1", 32, 36, false},
    format_info{format::q2_k, "Q2_K", 256, 84, false},
    format_info{format::q3_k, "Q3_K", 256, 110, false},
    format_info{format::q4_k, "Q4_K", 256, sizeof(block_q4_k), true},
    format_info{format::q5_k, "Q5_K", 256, sizeof(block_q5_k), true},
    format_info{format::q6_k, "Q6_K", 256, sizeof(block_q6_k), true},
    format_info{format::q8_k, "Q8_K", 256, 292, false},
    format_info{format::iq2_xxs, "IQ2_XXS", 256, 66, false},
    format_info{format::iq2_xs, "IQ2_XS", 256, 74, false},
    format_info{format::iq3_xxs, "IQ3_XXS", 256, 98, false},
    format_info{format::iq1_s, "IQ1_S", 256, 50, false},
    format_info{format::iq4_nl, "IQ4_NL", 32, 18, false},
    format_info{format::iq3_s, "IQ3_S", 256, 110, false},
    format_info{format::iq2_s, "IQ2_S", 256, 82, false},
    format_info{format::iq4_xs, "IQ4_XS", 256, 136, false},
    format_info{format::i8, "I8", 1, 1, false},
    format_info{format::i16, "I16", 1, 2, false},
    format_info{format::i32, "I32", 1, 4, false},
    format_info{format::i64, "I64", 1, 8, false},
    format_info{format::f64, "F64", 1, 8, false},
    format_info{format::iq1_m, "IQ1_M", 256, 56, false},
    format_info{format::bf16, "BF16", 1, 2, true},
    format_info{format::tq1_0, "TQ1_0", 256, 54, false},
    format_info{format::tq2_0, "TQ2_0", 256, 66, false},
    format_info{format::mxfp4, "MXFP4", 32, 17, false},
};

const format_info* find(std::uint32_t number) noexcept {
  for (const format_info& entry : table) {
    if (static_cast<std::uint32_t>(entry.type) == number) return &entry;
  }
  return nullptr;
}

}  // namespace

bool format_known(std::uint32_t number) noexcept { return find(number) != nullptr; }

const format_info& info(format type) noexcept {
  const format_info* const entry = find(static_cast<std::uint32_t>(type));
  EBB_ASSERT(entry != nullptr);
  return *entry;
}

std::size_t bytes_of(format type, std::size_t n_values) noexcept {
  const format_info& entry = info(type);
  EBB_ASSERT(n_values % entry.values_per_block == 0);
  return n_values / entry.values_per_block * entry.bytes_per_block;
}

}  // namespace ebb::kernels
