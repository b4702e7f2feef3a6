#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/pre_tokenizer.hpp"
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include "model/utf8.hpp"
#include <algorithm>
#include <array>
#include <limits>
#include <pcre2.h>
#include <string>

namespace ebb::model {
namespace {

// The expressions were written for engines whose \s is Unicode's White_Space. PCRE2's \s has U+180E besides, so the set is
// written out: the separators, tab to carriage return, and U+0085.
#define EBB_SPACE R"(\p{Z}\t-\r\x{85})"

// Letters with one character that is neither letter, digit nor newline in front; punctuation with the newlines after it; space
// up to a last newline; space up to the one before a word. The families that share this differ in how they cut digits.
#define EBB_PATTERN_WITH_DIGITS(digits)                                                                          \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" digits R"(| ?[^)" EBB_SPACE R"(\p{L}\p{N}]+[\r\n]*)" \
  R"(|[)" EBB_SPACE R"(]*[\r\n]+|[)" EBB_SPACE R"(]+(?![^)" EBB_SPACE R"(])|[)" EBB_SPACE R"(]+)"

constexpr pre_tokenizer_family gpt2 = {
    "gpt-2",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" EBB_SPACE R"(\p{L}\p{N}]+)"
    R"(|[)" EBB_SPACE R"(]+(?![^)" EBB_SPACE R"(])|[)" EBB_SPACE R"(]+)",
    false, false};
constexpr pre_tokenizer_family qwen2 = {"qwen2", EBB_PATTERN_WITH_DIGITS(R"(\p{N})"), false, false};
constexpr pre_tokenizer_family llama_bpe = {"llama-bpe", EBB_PATTERN_WITH_DIGITS(R"(\p{N}{1,3})"), true, true};

#undef EBB_PATTERN_WITH_DIGITS
#undef EBB_SPACE

struct known_name {
  std::string_view name;
  const pre_tokenizer_family* family;
};
// What published files write in tokenizer.ggml.pre. "default" and a missing key say that the converter did not know the
// expression; GPT-2's is the one that most others were made from.
constexpr std::array known_names = {
    known_name{"gpt-2", &gpt2},          known_name{"", &gpt2},
    known_name{"default", &gpt2},        known_name{"gpt2", &gpt2},
    known_name{"phi-2", &gpt2},          known_name{"olmo", &gpt2},
    known_name{"qwen2", &qwen2},         known_name{"deepseek-r1-qwen", &qwen2},
    known_name{"llama-bpe", &llama_bpe}, known_name{"llama3", &llama_bpe},
    known_name{"llama-v3", &llama_bpe},  known_name{"falcon3", &llama_bpe},
    known_name{"pixtral", &llama_bpe},
};

std::string list_known_names() {
  std::string list;
  for (const known_name& known : known_names) {
    if (known.name.empty()) continue;
    if (!list.empty()) list += ", ";
    list += known.name;
  }
  return list;
}

struct match_data_free {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};
struct match_context_free {
  void operator()(pcre2_match_context* context) const noexcept { pcre2_match_context_free(context); }
};

// The buffers of one split(), which threads may not share.
class matcher {
 public:
  explicit matcher(const pcre2_code* code)
      : code_(code), data_(pcre2_match_data_create_from_pattern(code, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    EBB_ASSERT(data_ != nullptr);
    EBB_ASSERT(context_ != nullptr);
    // The limit is there against expressions that backtrack exponentially. Ours take at most a step back for each byte of a
    // run of spaces, which the default would refuse from some ten million on.
    pcre2_set_match_limit(context_.get(), std::numeric_limits<std::uint32_t>::max());
  }

  // Appends the pieces of `text`. Pre: `text` is valid UTF-8.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = end_of_match(text, begin);
      pieces.push_back(text.substr(begin, end - begin));
      begin = end;
    }
  }

 private:
  // The expressions are anchored, match any text and never match nothing: no match and errors are bugs of ours.
  std::size_t end_of_match(std::string_view text, std::size_t begin) const {
    const int groups = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin, PCRE2_NO_UTF_CHECK,
                                   data_.get(), context_.get());
    EBB_ASSERT(groups > 0);
    const std::size_t end = pcre2_get_ovector_pointer(data_.get())[1];
    EBB_ASSERT(end > begin);
    return end;
  }

  const pcre2_code* code_;
  std::unique_ptr<pcre2_match_data, match_data_free> data_;
  std::unique_ptr<pcre2_match_context, match_context_free> context_;
};

// How many bytes of `bytes` come before the first unit that is a character (`valid` false) or is none (`valid` true).
std::size_t run_bytes(std::string_view bytes, bool valid) {
  std::size_t size_bytes = 0;
  while (size_bytes < bytes.size()) {
    const utf8_unit unit = first_unit(bytes.substr(size_bytes));
    if ((unit.what == utf8_unit::kind::character) != valid) break;
    size_bytes += unit.size_bytes;
  }
  return size_bytes;
}

}  // namespace

void pre_tokenizer::code_free::operator()(pcre2_real_code_8* code) const noexcept { pcre2_code_free(code); }

pre_tokenizer::pre_tokenizer(const pre_tokenizer_family& family, code_ptr code) noexcept
    : family_(&family), code_(std::move(code)) {}

result<pre_tokenizer> pre_tokenizer::make(std::string_view name) {
  const auto known = std::find_if(known_names.begin(), known_names.end(), [&](const known_name& one) { return one.name == name; });
  if (known == known_names.end()) {
    return fail(errc::unsupported_tokenizer, "tokenizer.ggml.pre is " + in_quotes(name) +
                                                 ", a pre-tokenizer that is not known; use a model with one of these: " +
                                                 list_known_names() + ".");
  }
  const std::string_view pattern = known->family->pattern;
  int error_number = 0;
  std::size_t error_offset = 0;
  code_ptr code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                              &error_number, &error_offset, nullptr));
  EBB_ASSERT(code != nullptr);
  // Where the system forbids pages that are written and run, this fails and pcre2_match() interprets, with the same matches.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
  return pre_tokenizer(*known->family, std::move(code));
}

std::vector<std::string_view> pre_tokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  const matcher match(code_.get());
  for (bool valid = true; !text.empty(); valid = !valid) {
    const std::string_view run = text.substr(0, run_bytes(text, valid));
    text.remove_prefix(run.size());
    if (valid) {
      match.split(run, pieces);
    } else {
      pieces.push_back(run);
    }
  }
  return pieces;
}

}  // namespace ebb::model
