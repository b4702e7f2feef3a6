#include "tests/kernels/fixtures.hpp"
#include "kernels/half.hpp"
#include "tests/where.hpp"
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

namespace ebb::kernels::test {

std::vector<format> formats_with_kernels() {
  std::vector<format> found;
  for (std::uint32_t number = 0; number < 64; ++number) {
    if (format_known(number) && info(static_cast<format>(number)).has_kernels) found.push_back(static_cast<format>(number));
  }
  return found;
}

std::vector<std::byte> read_data(const std::string& name) {
  std::ifstream file(ebb::test::where("EBB_TEST_DATA_PATH", EBB_TEST_DATA) + "/" + name, std::ios::binary);
  REQUIRE(file);
  const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<cpu::isa> vector_isas() {
  std::vector<cpu::isa> found;
  for (const cpu::isa which : {cpu::isa::avx2, cpu::isa::avx512}) {
    if (cpu::choose(to_string(which))) {
      found.push_back(which);
    } else {
      WARN("not tested, since this processor lacks it: " << to_string(which));
    }
  }
  return found;
}

template <class T>
guarded<T>::guarded(std::size_t count) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t readable = (count * sizeof(T) + page - 1) / page * page;
  mapping_bytes_ = readable + page;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapping_ != MAP_FAILED);
  REQUIRE(mprotect(static_cast<std::byte*>(mapping_) + readable, page, PROT_NONE) == 0);
  begin_ = readable - count * sizeof(T);
}

template <class T>
guarded<T>::~guarded() {
  munmap(mapping_, mapping_bytes_);
}

template class guarded<std::byte>;
template class guarded<float>;
template class guarded<std::int8_t>;
template class guarded<std::int32_t>;
template class guarded<std::uint16_t>;

std::vector<float> generator::normals(std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = normal();
  return values;
}

std::vector<std::uint16_t> generator::halves(std::size_t count) {
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) value = float_to_half(normal());
  return values;
}

std::uint16_t generator::factor() {
  switch (below(16)) {
    case 0: return static_cast<std::uint16_t>(below(2) << 15);                  // 0 or -0
    case 1: return static_cast<std::uint16_t>((below(2) << 15) | below(1024));  // subnormal
    default: return float_to_half(normal() * 0.01f);
  }
}

std::vector<std::byte> generator::weights(format type, std::size_t n_values) {
  std::vector<std::byte> bytes(bytes_of(type, n_values));
  for (std::byte& each : bytes) each = static_cast<std::byte>(below(256));
  const auto put = [&](std::size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof(value)); };
  const std::size_t step = info(type).bytes_per_block;
  for (std::size_t block = 0; block < bytes.size(); block += step) {
    switch (type) {
      case format::f32: put(block, normal()); break;
      case format::f16: put(block, float_to_half(normal())); break;
      case format::bf16: put(block, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal()) >> 16)); break;
      case format::q6_k: put(block + offsetof(block_q6_k, d), factor()); break;
      case format::q8_0:
      case format::q4_0:
      case format::q5_0: put(block, factor()); break;
      default:
        put(block, factor());
        put(block + 2, factor());
        break;  // d and m, or d and dmin
    }
  }
  return bytes;
}

owned_activations::owned_activations(generator& random, std::uint32_t n_rows, std::uint32_t columns)
    : n_cols(columns),
      x(random.normals(std::size_t{n_rows} * columns)),
      d(x.size() / activation_block),
      q(x.size()),
      sum(d.size()),
      residual_d(d.size()),
      residual_q(x.size()),
      residual_sum(d.size()) {
  const cpu::ops& scalar = cpu::ops_for(cpu::isa::scalar);
  const std::size_t whole = x.size() / activation_block * activation_block;
  std::vector<float> left_over(whole);
  scalar.quantize(x.data(), whole, q.data(), d.data(), sum.data());
  scalar.residual(x.data(), q.data(), d.data(), whole, left_over.data());
  scalar.quantize(left_over.data(), whole, residual_q.data(), residual_d.data(), residual_sum.data());
}

activations owned_activations::view(std::uint32_t n_parts) const {
  activations seen{x.data(), {{q.data(), d.data(), sum.data()}, {}}, n_cols};
  if (n_parts == 2) seen.part[1] = {residual_q.data(), residual_d.data(), residual_sum.data()};
  return seen;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace ebb::kernels::test
