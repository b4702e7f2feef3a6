#include "model/logits_hash.hpp"
#include "config/assert.hpp"
#include <bit>
#include <string_view>
#include <xxhash.h>

namespace ebb::model {

static_assert(std::endian::native == std::endian::little, "rows are hashed as they lie in memory");
static_assert(sizeof(float) == 4);

void logits_hash::state_free::operator()(XXH3_state_s* state) const noexcept { XXH3_freeState(state); }

logits_hash::logits_hash() : state_(XXH3_createState()) {
  EBB_ASSERT(state_ != nullptr);
  XXH3_128bits_reset(state_.get());
}

void logits_hash::add(std::span<const float> row) { XXH3_128bits_update(state_.get(), row.data(), row.size_bytes()); }

std::string logits_hash::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += digits[byte >> 4];
    text += digits[byte & 0xF];
  }
  return text;
}

}  // namespace ebb::model
