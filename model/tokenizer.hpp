// model/tokenizer.hpp: text to tokens and back, for byte-level BPE vocabularies (tokenizer.ggml.model "gpt2").
//
// Text is cut at tokens that are matched as a whole, what lies between by the pre-tokenizer of the family, and each piece is
// encoded by merging pairs. Every byte has a token, so any bytes can be encoded, UTF-8 or not, and decode(encode(x)) is x.
#pragma once
#include "config/ids.hpp"
#include "config/result.hpp"
#include "model/byte_pairs.hpp"
#include "model/pre_tokenizer.hpp"
#include "model/token_trie.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ebb::model {

// tokenizer.ggml.token_type, by the numbers of the format.
enum class token_type : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// A vocabulary as plain values, named after the keys of a GGUF file (tokenizer.ggml.*).
struct tokenizer_spec {
  std::vector<std::string> tokens;         // normal ones in the letters of byte_alphabet.hpp, the others as they are
  std::vector<std::string> merges;         // "left right", best first
  std::vector<std::int32_t> token_types;   // one a token, or empty: all normal
  std::string pre;                         // the pre-tokenizer's name; empty where the file has none
  std::optional<token_id> bos;
  std::optional<token_id> eos;
  std::vector<token_id> end_of_text;       // further tokens that end an answer (eot, eom)
  std::optional<bool> add_bos;             // none: as the family does
};

// Bytes of a text, from `begin` to before `end`.
struct byte_range {
  std::size_t begin;
  std::size_t end;
};

// Immutable after make(), so any thread may use it.
class tokenizer {
 public:
  // Errors: unsupported_tokenizer (unknown pre-tokenizer), corrupt (a byte without a token, a merge of texts that are no tokens,
  // an id outside the vocabulary, a number of types other than that of tokens).
  static result<tokenizer> make(tokenizer_spec spec);

  // Moves only: the index of texts points into the tokens.
  tokenizer(tokenizer&&) noexcept = default;
  tokenizer& operator=(tokenizer&&) noexcept = default;

  // The tokens of `text`, without a BOS in front. User-defined tokens are always matched as a whole, control tokens only when
  // `parse_special` (leave it off for text that must not take the part of a chat's markup); leftmost first, then longest.
  std::vector<token_id> encode(std::string_view text, bool parse_special = true) const;

  // The same with BOS in front, where the vocabulary asks for one and the text does not begin with it already (chat templates
  // that write it out are common).
  std::vector<token_id> encode_prompt(std::string_view text, bool parse_special = true) const;

  // The same for a text whose `foreign` ranges (in order and apart) may not name a control token, not even with a part of it: there its
  // letters are plain text. Where no such letters stand, the tokens are those of encode_prompt(text), across borders too.
  std::vector<token_id> encode_prompt(std::string_view text, std::span<const byte_range> foreign) const;

  // What a token adds to an answer; valid as long as this object. Nothing for a control token unless `special_as_text`, and
  // nothing for an id outside the vocabulary (a model may have more logits than its vocabulary has tokens).
  std::string_view bytes_of(token_id id, bool special_as_text = false) const noexcept;

  // The bytes of `ids` one after another; they need not be UTF-8 (model/utf8.hpp has the stream that is).
  std::string decode(std::span<const token_id> ids, bool special_as_text = false) const;

  // The token as the file writes it; empty for an id outside the vocabulary.
  std::string_view text_of(token_id id) const noexcept;

  // The first token that the file writes so.
  std::optional<token_id> find(std::string_view text) const;

  // Does this token end an answer?
  bool ends_text(token_id id) const noexcept;

  std::size_t n_vocab() const noexcept { return tokens_.size(); }
  bool contains(token_id id) const noexcept { return id >= 0 && static_cast<std::size_t>(id) < tokens_.size(); }
  bool adds_bos() const noexcept { return adds_bos_; }
  std::optional<token_id> bos() const noexcept { return bos_; }
  std::optional<token_id> eos() const noexcept { return eos_; }

 private:
  tokenizer(tokenizer_spec&& spec, pre_tokenizer pre);

  void index_texts();
  result<void> index_bytes();
  result<void> index_merges(const std::vector<std::string>& merges);
  template <class Next>
  std::vector<token_id> encode_by(std::string_view text, Next next) const;
  token_trie::match find_outside(std::string_view text, std::size_t begin, std::span<const byte_range> foreign) const;
  std::vector<token_id> with_bos(std::vector<token_id> ids) const;
  void encode_plain(std::string_view text, byte_pair_encoder& encoder, std::vector<token_id>& ids) const;

  pre_tokenizer pre_;
  std::vector<std::string> tokens_;  // as the file writes them
  std::vector<token_type> types_;    // [n_vocab]
  std::vector<std::string> bytes_;   // [n_vocab] what each stands for
  std::vector<token_id> ends_text_;
  std::optional<token_id> bos_;
  std::optional<token_id> eos_;
  bool adds_bos_;

  // Indices of the above, filled by make().
  std::unordered_map<std::string_view, token_id> ids_;           // by the file's text
  std::unordered_map<std::string_view, token_id> whole_pieces_;  // normal tokens by bytes, for families that keep them whole
  token_trie user_defined_;
  token_trie special_;  // user-defined and control
  std::array<token_id, 256> token_of_byte_{};
  merge_table merges_;
};

}  // namespace ebb::model
