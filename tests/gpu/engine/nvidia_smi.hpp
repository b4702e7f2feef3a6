// tests/gpu/engine/nvidia_smi.hpp: what another program sees of the GPUs' memory.
#pragma once
#include "tests/gpu/engine/served.hpp"

namespace ebb::tools::test {

// Of every CUDA card: that nvidia-smi's free figure is Ebb's, at a time when nothing moves. false: it is not there, or does not say.
bool compare_with_nvidia_smi(served& with, const std::string& when);

// Asks nvidia-smi every 200 ms from its construction on, through one process of its own.
class nvidia_smi_watch {
 public:
  nvidia_smi_watch();
  ~nvidia_smi_watch();

  // The least and the most that each GPU had in use.
  void print(const std::string& what) const;

 private:
  struct child;
  std::unique_ptr<child> child_;
};

}  // namespace ebb::tools::test
