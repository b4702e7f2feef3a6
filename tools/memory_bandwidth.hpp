// tools/memory_bandwidth.hpp: how fast this machine's memory can be read by so many threads, for comparison with what a model reads.
#pragma once

namespace ebb::tools {

// Bytes/s, the best of several passes over a buffer far larger than the caches.
double read_bandwidth(unsigned n_threads);

}  // namespace ebb::tools
