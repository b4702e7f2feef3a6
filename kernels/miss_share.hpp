// kernels/miss_share.hpp: of the experts that a layer misses, how many the CPU computes while the others are copied to the GPU.
//
// Both ways run side by side, so the best share is the one whose slower way ends first. A copy costs the same for each expert; the CPU
// has a cost for each call as well, so its times are measured for one, two, three misses and so on; and they are corrected as it serves,
// by one factor, since they depend on what else the machine does. No share changes a bit of an answer.
#pragma once
#include <cstdint>
#include <vector>

namespace ebb::kernels {

class miss_share {
 public:
  // cpu_ms[n - 1]: what n experts cost on the CPU; beyond the last it goes on as on average before. Pre: all above 0, one at least (asserts).
  miss_share(double copy_ms, std::vector<double> cpu_ms);

  // The CPU took so long for n experts. One time says little: it counts for a sixteenth, and for no more than twice what was expected, so
  // that a thread that lost its core for a while decides nothing.
  void note(std::uint32_t n, double ms) noexcept;

  // Of so many. Follows what was noted only in steps of a twentieth, at settle(), so that it seldom changes.
  std::uint32_t on_cpu(std::uint32_t missing) const noexcept;
  // Whether on_cpu may now say something else than before.
  bool settle() noexcept;

  double copy_ms() const noexcept { return copy_ms_; }      // of one
  double cpu_ms(std::uint32_t n) const noexcept { return factor_ * measured_ms(n); }  // as learnt

 private:
  double measured_ms(std::uint32_t n) const noexcept;

  double copy_ms_;
  std::vector<double> cpu_ms_;
  double factor_ = 1;
  double settled_factor_ = 1;  // that on_cpu goes by
};

}  // namespace ebb::kernels
