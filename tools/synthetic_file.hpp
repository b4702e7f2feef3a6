// tools/synthetic_file.hpp: a synthetic model on disk, as fast as the disk takes it.
//
// Tensors are cut into pieces of about a MiB, each drawn from its own place (tools/counted_random.hpp), so threads draw and write them in
// any order and the bytes are the same. The header is written last: what was cut short by a power cut is no GGUF file.
#pragma once
#include "config/result.hpp"
#include "tools/synthetic_model.hpp"
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>

namespace ebb::tools {

struct write_options {
  bool overwrite = false;  // a file that is there
  unsigned n_threads = 1;
  std::function<void(double)> progress;  // share that is written, in [0, 1]; called by the caller's thread; may be empty
  std::stop_token stop;
};

// The size of the file in bytes. Not flushed to the disk. On any error there is no file of ours left, and what was to be overwritten is
// kept unless the writing had begun.
// Errors: file_unwritable (naming the file: it is there, its folder is not or takes no files, too little room), cancelled (`stop`).
result<std::uint64_t> write_synthetic(const synthetic_model& model, const std::filesystem::path& path, const write_options& options);

}  // namespace ebb::tools
