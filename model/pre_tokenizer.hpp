// model/pre_tokenizer.hpp: cuts text into the pieces within which byte pairs are merged.
//
// A family is a regular expression over Unicode text that matches at every position, so its matches cover the text. GGUF names
// it in tokenizer.ggml.pre; published files use several names for one expression (pre_tokenizer.cpp has the table).
//
// Bytes that are not UTF-8 belong to no match: each longest run of them is a piece of its own, and the text on either side is
// cut as if it began or ended there. So no byte is lost, and text without such bytes is cut as the expression says.
#pragma once
#include "config/result.hpp"
#include <memory>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace ebb::model {

// How the tokenizer of a family differs from the others.
struct pre_tokenizer_family {
  std::string_view name;     // "gpt-2", "qwen2", "llama-bpe"
  std::string_view pattern;  // in the syntax of PCRE2, \s written out (pre_tokenizer.cpp says why)
  bool keeps_whole_tokens;   // a piece that is a token is that token, whatever its merges would give
  bool adds_bos;             // when the file does not say
};

// Immutable after make(), so any thread may use it.
class pre_tokenizer {
 public:
  // By tokenizer.ggml.pre; the empty name is a file without that key.
  // Errors: unsupported_tokenizer, with the known names.
  static result<pre_tokenizer> make(std::string_view name);

  // The pieces of `text` in order, none empty; together they are `text`, into which they point.
  std::vector<std::string_view> split(std::string_view text) const;

  const pre_tokenizer_family& family() const noexcept { return *family_; }

 private:
  struct code_free {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  using code_ptr = std::unique_ptr<pcre2_real_code_8, code_free>;

  pre_tokenizer(const pre_tokenizer_family& family, code_ptr code) noexcept;

  const pre_tokenizer_family* family_;  // in a static table
  code_ptr code_;
};

}  // namespace ebb::model
