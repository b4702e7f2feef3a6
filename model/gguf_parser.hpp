// model/gguf_parser.hpp: one file's header, parsed and checked. model/gguf.hpp puts shards together and answers questions.
//
//   "GGUF"  version u32  n_tensors u64  n_entries u64
//   entries: key string, type u32, value          value of an array: element type u32, count u64, elements
//   tensors: name string, n_dims u32, dims u64 each, format u32, offset u64 into the data
//   data:    starts at the next multiple of general.alignment (32 if absent), as does each tensor in it
#pragma once
#include "config/result.hpp"
#include "model/gguf.hpp"
#include "model/name_index.hpp"
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ebb::model {

struct gguf_contents {
  std::uint32_t version;
  std::vector<gguf_entry> entries;
  name_index entries_by_key;
  std::vector<gguf_tensor> tensors;  // their shard is 0

  const gguf_value* find(std::string_view key) const noexcept;  // null if absent
};

// Everything the contents point to lies in `bytes` and is checked; memory is taken in proportion to them. Errors: those of
// gguf::open but file_unreadable. Corrupt are also a key given twice and tensors that overlap: no writer makes either, and each
// would let one name mean two things.
result<gguf_contents> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

}  // namespace ebb::model
