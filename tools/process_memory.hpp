// tools/process_memory.hpp: what the operating system counts as this process's memory.
#pragma once

namespace ebb::tools {

struct process_memory {
  double rss_mib = 0;       // VmRSS: all resident pages, those of mapped files too
  double rss_anon_mib = 0;  // RssAnon: those that only this process has, such as a cache's segments
};

// From /proc/self/status; zeros where that cannot be read.
process_memory read_process_memory();

}  // namespace ebb::tools
