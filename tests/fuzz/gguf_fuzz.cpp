// tests/fuzz/gguf_fuzz.cpp: any bytes are a model or an error, and a model's every byte can be read.
#include "model/checkpoint.hpp"
#include "model/gguf.hpp"
#include "model/vocabulary.hpp"
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb::model;
  auto file = gguf::parse(std::as_bytes(std::span(data, size)), "fuzzed.gguf");
  if (!file) return 0;
  for (const gguf_entry& entry : file->entries()) static_cast<void>(to_text(entry.value));
  static_cast<void>(read_vocabulary(*file));
  const auto model = checkpoint::make(*std::move(file));
  if (model) (*model)->warm({});
  return 0;
}
