// tests/fuzz/tokenizer_fuzz.cpp: any bytes go to tokens and back unchanged, and reach a client as valid UTF-8.
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include "model/tokenizer.hpp"
#include "model/utf8.hpp"
#include "tests/model/support/tiny_vocabulary.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace ebb::model;

void check_round_trip(const tokenizer& vocabulary, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    const auto ids = vocabulary.encode(text, parse_special);
    EBB_ASSERT(vocabulary.decode(ids, true) == text);

    utf8_stream stream;
    std::string shown;
    for (const ebb::token_id id : ids) shown += stream.push(vocabulary.bytes_of(id, true));
    shown += stream.finish();
    EBB_ASSERT(ebb::is_valid_utf8(shown));
    EBB_ASSERT(shown == text || !ebb::is_valid_utf8(text));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<tokenizer, 3> vocabularies = {*tokenizer::make(test::tiny_spec("gpt-2")),
                                                        *tokenizer::make(test::tiny_spec("qwen2")),
                                                        *tokenizer::make(test::tiny_spec("llama-bpe"))};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const tokenizer& vocabulary : vocabularies) check_round_trip(vocabulary, text);
  return 0;
}
