// bus/wake_event.hpp: what wakes a socket's thread from a wait for its descriptors. Kept until it is taken.
#pragma once
#include "bus/file_descriptor.hpp"
#include "config/assert.hpp"
#include <sys/eventfd.h>

namespace ebb::bus {

class wake_event {
 public:
  // Asserts that the system gives it a descriptor.
  wake_event() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { EBB_ASSERT(event_.is_open()); }

  // From any thread; never waits.
  void wake() { ::eventfd_write(event_.get(), 1); }

  void take() {
    eventfd_t ignored = 0;
    ::eventfd_read(event_.get(), &ignored);
  }

  // To poll for reading.
  int fd() const noexcept { return event_.get(); }

 private:
  file_descriptor event_;
};

}  // namespace ebb::bus
