#include "tools/synthetic_vocabulary.hpp"
#include "config/assert.hpp"
#include "model/byte_alphabet.hpp"
#include <array>
#include <string>
#include <string_view>
#include <unordered_set>

namespace ebb::tools {
namespace {

// The commonest first, so that a small vocabulary has those.
constexpr std::string_view words =
    "the of and to a in is it you that he was for on are with as his they be at one have this from or had by not but what all were we "
    "when your can said there use an each which she do how their if will up other about out many then them these so some her would make "
    "like him into time has look two more write go see number no way could people my than first water been call who its now find long "
    "down day did get come made may part over new sound take only little work know place year live me back give most very after thing "
    "our just name good sentence man think say great where help through much before line right too mean old any same tell boy follow "
    "came want show also around form three small set put end does another well large must big even such because turn here why ask went "
    "men read need land different home us move try kind hand picture again change off play spell air away animal house point page letter "
    "mother answer found study still learn should world high every near add food between own below country plant last school father keep "
    "tree never start city earth eye light thought head under story saw left few while along might close something seem next hard open "
    "example begin life always those both paper together got group often run important until children side feet car mile night walk white "
    "sea began grow took river four carry state once book hear stop without second late miss idea enough eat face watch far really almost";

constexpr std::array<std::string_view, 3> control_tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
constexpr std::string_view consonants = "bdfgklmnprstvz", vowels = "aeiou";
constexpr std::uint32_t n_syllables = 14 * 5;
static_assert(consonants.size() * vowels.size() == n_syllables);
static_assert(n_syllables * n_syllables * n_syllables > synthetic_vocab_max + 1000, "a few of them are words that are there already");

using model::letter_of;
using model::tokenizer_spec;

class vocabulary_maker {
 public:
  explicit vocabulary_maker(std::uint32_t n_vocab) : room_(n_vocab - control_tokens.size()) {}

  tokenizer_spec made() {
    for (int byte = 0; byte < 256; ++byte) add(letter_of(static_cast<std::uint8_t>(byte)));
    add_common_words();
    for (std::uint32_t index = 0; spec_.tokens.size() < room_; ++index) add(made_up_word(index));
    spec_.token_types.assign(spec_.tokens.size(), static_cast<std::int32_t>(model::token_type::normal));
    add_control_tokens();
    return std::move(spec_);
  }

 private:
  bool add(const std::string& text) {
    if (spec_.tokens.size() == room_ || !known_.insert(text).second) return false;
    spec_.tokens.push_back(text);
    return true;
  }

  // Every merge adds a letter to what began with a space, so none of them takes a letter from another.
  void add_common_words() {
    for (std::size_t begin = 0; begin < words.size();) {
      const std::size_t end = std::min(words.find(' ', begin), words.size());
      std::string left = letter_of(' ');
      for (const char letter : words.substr(begin, end - begin)) {
        const std::string merged = left + letter;
        if (add(merged)) spec_.merges.push_back(left + " " + letter);
        if (!known_.contains(merged)) return;  // no room
        left = merged;
      }
      begin = end + 1;
    }
  }

  static std::string made_up_word(std::uint32_t index) {
    std::string word = letter_of(' ');
    for (int syllable = 0; syllable < 3; ++syllable, index /= n_syllables) {
      word += consonants[index % n_syllables / vowels.size()];
      word += vowels[index % vowels.size()];
    }
    return word;
  }

  void add_control_tokens() {
    const auto first = static_cast<token_id>(spec_.tokens.size());
    for (const std::string_view text : control_tokens) {
      spec_.tokens.emplace_back(text);
      spec_.token_types.push_back(static_cast<std::int32_t>(model::token_type::control));
    }
    spec_.pre = "qwen2";
    spec_.bos = first;
    spec_.eos = first + 2;
    spec_.end_of_text = {first + 2};
    spec_.add_bos = false;
  }

  std::size_t room_;  // of tokens that are not control
  tokenizer_spec spec_;
  std::unordered_set<std::string> known_;
};

}  // namespace

tokenizer_spec synthetic_vocabulary(std::uint32_t n_vocab) {
  EBB_ASSERT(n_vocab >= synthetic_vocab_min);
  EBB_ASSERT(n_vocab <= synthetic_vocab_max);
  return vocabulary_maker(n_vocab).made();
}

}  // namespace ebb::tools
