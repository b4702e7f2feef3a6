#include "kernels/miss_share.hpp"
#include "config/assert.hpp"
#include <algorithm>
#include <cmath>
#include <utility>

namespace ebb::kernels {

miss_share::miss_share(double copy_ms, std::vector<double> cpu_ms) : copy_ms_(copy_ms), cpu_ms_(std::move(cpu_ms)) {
  EBB_ASSERT(copy_ms > 0);
  EBB_ASSERT(!cpu_ms_.empty());
  for (const double each : cpu_ms_) EBB_ASSERT(each > 0);
}

double miss_share::measured_ms(std::uint32_t n) const noexcept {
  const std::size_t known = cpu_ms_.size();
  if (n == 0) return 0;
  if (n <= known) return cpu_ms_[n - 1];
  const double each = known == 1 ? cpu_ms_[0] : std::max(0.0, cpu_ms_.back() - cpu_ms_.front()) / static_cast<double>(known - 1);
  return cpu_ms_.back() + static_cast<double>(n - known) * each;
}

void miss_share::note(std::uint32_t n, double ms) noexcept {
  if (n == 0) return;
  const double seen = std::clamp(ms / measured_ms(n), factor_ / 2, factor_ * 2);
  factor_ += (seen - factor_) / 16;
}

bool miss_share::settle() noexcept {
  if (std::abs(factor_ - settled_factor_) < settled_factor_ / 20) return false;
  settled_factor_ = factor_;
  return true;
}

std::uint32_t miss_share::on_cpu(std::uint32_t missing) const noexcept {
  std::uint32_t best = 0;
  double best_ms = missing * copy_ms_;
  for (std::uint32_t n = 1; n <= missing; ++n) {
    const double ms = std::max(settled_factor_ * measured_ms(n), (missing - n) * copy_ms_);
    if (ms < best_ms) best = n, best_ms = ms;
  }
  return best;
}

}  // namespace ebb::kernels
