#include "model/tokenizer.hpp"
#include "model/gguf.hpp"
#include "model/vocabulary.hpp"
#include "tests/model/support/random_bytes.hpp"
#include "tests/model/support/tiny_vocabulary.hpp"
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace ebb::model {
namespace {

using ids = std::vector<token_id>;

const tokenizer& demo() {
  static const auto vocabulary = [] {
    const auto file = gguf::open(EBB_DEMO_MODEL);
    REQUIRE(file.has_value());
    auto read = read_vocabulary(*file);
    REQUIRE(read.has_value());
    return *read;
  }();
  return *vocabulary;
}

tokenizer tiny(const std::string& pre = "qwen2") {
  auto made = tokenizer::make(test::tiny_spec(pre));
  REQUIRE(made.has_value());
  return std::move(*made);
}

error error_of(tokenizer_spec spec) {
  const auto made = tokenizer::make(std::move(spec));
  REQUIRE_FALSE(made.has_value());
  return made.error();
}

// Byte pair encoding as it is defined: look over all neighbours, merge the best, begin again.
ids encode_naively(std::string_view piece, const merge_table& merges) {
  ids left;
  for (const char byte : piece) left.push_back(static_cast<std::uint8_t>(byte));
  for (;;) {
    std::size_t best = left.size();
    std::uint32_t best_rank = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t i = 0; i + 1 < left.size(); ++i) {
      const auto* merge = merges.find(left[i], left[i + 1]);
      if (merge != nullptr && merge->rank < best_rank) {
        best = i;
        best_rank = merge->rank;
      }
    }
    if (best == left.size()) return left;
    left[best] = merges.find(left[best], left[best + 1])->merged;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("the demo vocabulary encodes every golden text to its ids") {
  std::ifstream lines(std::string(EBB_TEST_DATA) + "/tokenizer.jsonl");
  std::string line;
  int n_lines = 0;
  while (std::getline(lines, line)) {
    const auto golden = nlohmann::json::parse(line);
    const auto text = golden.at("text").get<std::string>();
    INFO(line);
    CHECK(demo().encode(text) == golden.at("ids").get<ids>());
    CHECK(demo().decode(demo().encode(text), true) == text);
    ++n_lines;
  }
  CHECK(n_lines == 53);
}

TEST_CASE("a pair merges by rank, the leftmost of equal ones first") {
  const tokenizer vocabulary = tiny();
  CHECK(vocabulary.encode("hello") == ids{test::tiny::hello});
  CHECK(vocabulary.encode("lll") == ids{test::tiny::ll, 'l'});
  CHECK(vocabulary.encode("helll") == ids{test::tiny::hell, 'l'});
  CHECK(vocabulary.encode(" world") == ids{test::tiny::space_w, 'o', 'r', 'l', 'd'});
}

TEST_CASE("the encoder agrees with the definition for random merges and words") {
  std::mt19937_64 random(31);
  std::array<token_id, 256> token_of_byte;
  for (int byte = 0; byte < 256; ++byte) token_of_byte[byte] = byte;
  for (int round = 0; round < 60; ++round) {
    merge_table merges;
    token_id n_tokens = 256;
    const auto any_token = [&] {  // few letters, so that pairs recur and overlap
      const std::size_t pick = test::below(random, 3 + static_cast<std::size_t>(n_tokens) - 256);
      return pick < 3 ? static_cast<token_id>('a' + pick) : static_cast<token_id>(256 + pick - 3);
    };
    for (int i = 0; i < 30; ++i) {
      const token_id left = any_token();
      const token_id right = any_token();
      merges.add(left, right, n_tokens++);
    }
    byte_pair_encoder encoder(token_of_byte, merges);
    for (int word = 0; word < 60; ++word) {
      std::string piece(1 + test::below(random, 40), '\0');
      for (char& letter : piece) letter = static_cast<char>('a' + test::below(random, 3));
      ids encoded;
      encoder.encode(piece, encoded);
      REQUIRE(encoded == encode_naively(piece, merges));
    }
  }
}

// Quadratic time would take hours and fail by ctest's limit.
TEST_CASE("a word of a megabyte is encoded in little more than linear time") {
  const std::string text(1u << 20, 'l');
  const ids encoded = tiny().encode(text);
  CHECK(encoded == ids(text.size() / 2, test::tiny::ll));

  std::mt19937_64 random(32);
  std::string letters(1u << 20, '\0');
  for (char& letter : letters) letter = static_cast<char>('a' + test::below(random, 26));
  CHECK(demo().decode(demo().encode(letters)) == letters);
}

TEST_CASE("decode(encode(x)) is x for any bytes, whatever the family") {
  std::mt19937_64 random(33);
  for (const char* pre : {"gpt-2", "qwen2", "llama-bpe"}) {
    const tokenizer vocabulary = tiny(pre);
    for (int round = 0; round < 300; ++round) {
      const std::string text = (round % 2 ? test::random_damaged_text(random, 50) : test::random_bytes(random, 80)) + "<end><think>";
      for (const bool parse_special : {false, true}) REQUIRE(vocabulary.decode(vocabulary.encode(text, parse_special), true) == text);
    }
  }
}

TEST_CASE("control tokens in text are markup only when asked for, user-defined ones always") {
  const tokenizer vocabulary = tiny();
  CHECK(vocabulary.encode("a<begin><think>") == ids{'a', test::tiny::begin, test::tiny::think});
  const ids plain = vocabulary.encode("<begin><think>", false);
  CHECK(plain == ids{'<', 'b', 'e', 'g', 'i', 'n', '>', test::tiny::think});
}

TEST_CASE("of tokens that begin at one place the longest is matched, and unused ones never") {
  const tokenizer vocabulary = tiny();
  CHECK(vocabulary.encode("<end><turn>") == ids{test::tiny::end_turn});
  CHECK(vocabulary.encode("<end><end>") == ids{test::tiny::end, test::tiny::end});
  CHECK(vocabulary.encode("[PAD1]").size() == 6);
}

TEST_CASE("text is cut at a special token before it is cut by the expression") {
  CHECK(tiny().encode("hello<end>hello") == ids{test::tiny::hello, test::tiny::end, test::tiny::hello});
  CHECK(tiny().encode("hell<end>o") == ids{test::tiny::hell, test::tiny::end, 'o'});
}

TEST_CASE("llama-bpe takes a piece that is a token whole, even where merges do not lead to it") {
  for (const auto& [pre, expected] : std::map<std::string, ids>{{"qwen2", {'z', 'q'}}, {"llama-bpe", {test::tiny::n_vocab}}}) {
    tokenizer_spec spec = test::tiny_spec(pre);
    spec.tokens.push_back("zq");
    spec.token_types.push_back(1);
    CHECK(tokenizer::make(std::move(spec))->encode("zq") == expected);
  }
}

TEST_CASE("encode adds no BOS; encode_prompt adds one where the vocabulary asks and the text has none") {
  tokenizer_spec spec = test::tiny_spec();
  spec.add_bos = true;
  const auto with_bos = tokenizer::make(spec);
  CHECK(with_bos->encode("a") == ids{'a'});
  CHECK(with_bos->encode_prompt("a") == ids{test::tiny::begin, 'a'});
  CHECK(with_bos->encode_prompt("") == ids{test::tiny::begin});
  CHECK(with_bos->encode_prompt("<begin>a") == ids{test::tiny::begin, 'a'});

  spec.add_bos = false;
  CHECK(tokenizer::make(spec)->encode_prompt("a") == ids{'a'});
  spec.add_bos = true;
  spec.bos = std::nullopt;
  CHECK(tokenizer::make(spec)->encode_prompt("a") == ids{'a'});
}

TEST_CASE("a file that does not say whether to add BOS follows its family") {
  CHECK_FALSE(tiny("gpt-2").adds_bos());
  CHECK_FALSE(tiny("qwen2").adds_bos());
  CHECK(tiny("llama-bpe").adds_bos());
}

TEST_CASE("control tokens show nothing unless asked for, user-defined ones show themselves") {
  const tokenizer vocabulary = tiny();
  CHECK(vocabulary.bytes_of(test::tiny::end).empty());
  CHECK(vocabulary.bytes_of(test::tiny::end, true) == "<end>");
  CHECK(vocabulary.bytes_of(test::tiny::think) == "<think>");
  CHECK(vocabulary.bytes_of(test::tiny::space_w) == " w");
  CHECK(vocabulary.decode(ids{test::tiny::begin, test::tiny::hello, test::tiny::space_w, 0xFF, test::tiny::end}) == "hello w\xFF");
}

TEST_CASE("an id outside the vocabulary stands for nothing") {
  const tokenizer vocabulary = tiny();
  for (const token_id id : {-1, test::tiny::n_vocab, std::numeric_limits<token_id>::max(), std::numeric_limits<token_id>::min()}) {
    CHECK_FALSE(vocabulary.contains(id));
    CHECK(vocabulary.bytes_of(id, true).empty());
    CHECK(vocabulary.text_of(id).empty());
    CHECK_FALSE(vocabulary.ends_text(id));
  }
}

TEST_CASE("texts and ids are found both ways") {
  const tokenizer vocabulary = tiny();
  CHECK(vocabulary.n_vocab() == test::tiny::n_vocab);
  CHECK(vocabulary.find("hello") == test::tiny::hello);
  CHECK(vocabulary.find("<end>") == test::tiny::end);
  CHECK(vocabulary.find("nowhere") == std::nullopt);
  CHECK(vocabulary.text_of(test::tiny::space_w) == letter_of(' ') + "w");
}

TEST_CASE("eos and the further tokens named by the file end text") {
  const tokenizer vocabulary = tiny();
  CHECK(vocabulary.ends_text(test::tiny::end));
  CHECK(vocabulary.ends_text(test::tiny::end_turn));
  CHECK_FALSE(vocabulary.ends_text(test::tiny::begin));
  CHECK_FALSE(vocabulary.ends_text('a'));
}

TEST_CASE("a tokenizer that was moved still encodes") {
  tokenizer from = tiny("llama-bpe");
  const tokenizer to = std::move(from);
  CHECK(to.encode("hello<end>") == ids{test::tiny::hello, test::tiny::end});
  CHECK(to.find("hello") == test::tiny::hello);
}

TEST_CASE("a vocabulary without a token for some byte is corrupt, and the error says which") {
  tokenizer_spec spec = test::tiny_spec();
  spec.tokens['A'] = "replaced";
  const error what = error_of(spec);
  CHECK(what.code == errc::corrupt);
  CHECK_THAT(what.text, Catch::Contains("byte 65") && Catch::Contains("\"A\""));
  CHECK(error_of({}).code == errc::corrupt);
}

TEST_CASE("a merge without its tokens is corrupt, and the error names it") {
  for (const char* merge : {"hello", "", "h nowhere", "nowhere h", "h h"}) {
    tokenizer_spec spec = test::tiny_spec();
    spec.merges.push_back(merge);
    const error what = error_of(spec);
    CHECK(what.code == errc::corrupt);
    CHECK_THAT(what.text, Catch::Contains("merges[5]") && Catch::Contains("\"" + std::string(merge) + "\""));
  }
}

TEST_CASE("types that are not one a token are corrupt; none at all means normal") {
  tokenizer_spec spec = test::tiny_spec();
  spec.token_types.pop_back();
  CHECK(error_of(spec).code == errc::corrupt);
  spec.token_types.clear();
  CHECK(tokenizer::make(spec)->encode("<end>").size() == 5);
}

TEST_CASE("a special id outside the vocabulary is corrupt, and the error names its key") {
  const auto key_of = [](auto change) {
    tokenizer_spec spec = test::tiny_spec();
    change(spec);
    const error what = error_of(spec);
    CHECK(what.code == errc::corrupt);
    return what.text;
  };
  CHECK_THAT(key_of([](tokenizer_spec& spec) { spec.bos = test::tiny::n_vocab; }), Catch::Contains("bos_token_id"));
  CHECK_THAT(key_of([](tokenizer_spec& spec) { spec.eos = -1; }), Catch::Contains("eos_token_id"));
  CHECK_THAT(key_of([](tokenizer_spec& spec) { spec.end_of_text.push_back(-7); }), Catch::Contains("eot_token_id"));
}

TEST_CASE("an unknown pre-tokenizer is refused by name") {
  CHECK(error_of(test::tiny_spec("klingon")).code == errc::unsupported_tokenizer);
}

}  // namespace ebb::model
