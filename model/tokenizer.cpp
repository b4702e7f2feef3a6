#include "model/tokenizer.hpp"
#include "model/byte_alphabet.hpp"
#include "config/utf8.hpp"
#include <algorithm>
#include <utility>

namespace ebb::model {
namespace {

result<void> check_types(const tokenizer_spec& spec) {
  if (spec.token_types.empty() || spec.token_types.size() == spec.tokens.size()) return {};
  return fail(errc::corrupt, "tokenizer.ggml.token_type has " + std::to_string(spec.token_types.size()) + " entries for " +
                                 std::to_string(spec.tokens.size()) + " tokens; it needs one each.");
}

result<void> check_id(const char* key, token_id id, std::size_t n_vocab) {
  if (id >= 0 && static_cast<std::size_t>(id) < n_vocab) return {};
  return fail(errc::corrupt, std::string("tokenizer.ggml.") + key + " is " + std::to_string(id) + ", outside the vocabulary of " +
                                 std::to_string(n_vocab) + " tokens.");
}

result<void> check_ids(const tokenizer_spec& spec) {
  const std::size_t n_vocab = spec.tokens.size();
  if (spec.bos) {
    if (auto ok = check_id("bos_token_id", *spec.bos, n_vocab); !ok) return ok;
  }
  if (spec.eos) {
    if (auto ok = check_id("eos_token_id", *spec.eos, n_vocab); !ok) return ok;
  }
  for (const token_id id : spec.end_of_text) {
    if (auto ok = check_id("eot_token_id, or of another token that ends text,", id, n_vocab); !ok) return ok;
  }
  return {};
}

std::vector<token_type> types_of(const std::vector<std::int32_t>& numbers, std::size_t n_vocab) {
  std::vector<token_type> types(n_vocab, token_type::normal);
  std::transform(numbers.begin(), numbers.end(), types.begin(),
                 [](std::int32_t number) { return static_cast<token_type>(number); });
  return types;
}

std::vector<std::string> bytes_of_tokens(const std::vector<std::string>& tokens, const std::vector<token_type>& types) {
  std::vector<std::string> bytes(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    bytes[id] = types[id] == token_type::normal ? bytes_of_letters(tokens[id]) : tokens[id];
  }
  return bytes;
}

}  // namespace

result<tokenizer> tokenizer::make(tokenizer_spec spec) {
  auto pre = pre_tokenizer::make(spec.pre);
  if (!pre) return fail(std::move(pre.error()));
  if (auto ok = check_types(spec); !ok) return fail(std::move(ok.error()));
  if (auto ok = check_ids(spec); !ok) return fail(std::move(ok.error()));

  const std::vector<std::string> merges = std::move(spec.merges);
  tokenizer made(std::move(spec), std::move(*pre));
  if (auto ok = made.index_bytes(); !ok) return fail(std::move(ok.error()));
  if (auto ok = made.index_merges(merges); !ok) return fail(std::move(ok.error()));
  return made;
}

tokenizer::tokenizer(tokenizer_spec&& spec, pre_tokenizer pre)
    : pre_(std::move(pre)),
      tokens_(std::move(spec.tokens)),
      types_(types_of(spec.token_types, tokens_.size())),
      bytes_(bytes_of_tokens(tokens_, types_)),
      ends_text_(std::move(spec.end_of_text)),
      bos_(spec.bos),
      eos_(spec.eos),
      adds_bos_(spec.bos && spec.add_bos.value_or(pre_.family().adds_bos)) {
  if (eos_) ends_text_.push_back(*eos_);
  index_texts();
}

void tokenizer::index_texts() {
  ids_.reserve(tokens_.size());
  for (token_id id = 0; contains(id); ++id) {
    const std::string& text = tokens_[id];
    ids_.try_emplace(text, id);
    if (types_[id] == token_type::normal && pre_.family().keeps_whole_tokens) whole_pieces_.try_emplace(bytes_[id], id);
    if (text.empty()) continue;
    if (types_[id] == token_type::user_defined) user_defined_.add(text, id);
    if (types_[id] == token_type::user_defined || types_[id] == token_type::control) special_.add(text, id);
  }
}

result<void> tokenizer::index_bytes() {
  for (std::size_t byte = 0; byte < token_of_byte_.size(); ++byte) {
    const std::string letter = letter_of(static_cast<std::uint8_t>(byte));
    const auto id = find(letter);
    if (!id) {
      return fail(errc::corrupt, "tokenizer.ggml.tokens has no token " + in_quotes(letter) + " for byte " + std::to_string(byte) +
                                     "; a byte-level vocabulary has one for each byte.");
    }
    token_of_byte_[byte] = *id;
  }
  return {};
}

result<void> tokenizer::index_merges(const std::vector<std::string>& merges) {
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string_view text = merges[i];
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view left_text = text.substr(0, space);
    const std::string_view right_text = text.substr(std::min(space + 1, text.size()));
    const auto left = find(left_text);
    const auto right = find(right_text);
    const auto merged = find(std::string(left_text).append(right_text));
    if (!left || !right || !merged) {
      return fail(errc::corrupt, "tokenizer.ggml.merges[" + std::to_string(i) + "] is " + in_quotes(text) +
                                     "; it needs two tokens with a space between that together make a third.");
    }
    merges_.add(*left, *right, *merged);
  }
  return {};
}

template <class Next>
std::vector<token_id> tokenizer::encode_by(std::string_view text, Next next) const {
  byte_pair_encoder encoder(token_of_byte_, merges_);
  std::vector<token_id> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    const token_trie::match match = next(begin);
    encode_plain(text.substr(begin, match.begin - begin), encoder, ids);
    if (match.size_bytes > 0) ids.push_back(match.token);
    begin = match.begin + match.size_bytes;
  }
  return ids;
}

std::vector<token_id> tokenizer::encode(std::string_view text, bool parse_special) const {
  const token_trie& matched_whole = parse_special ? special_ : user_defined_;
  return encode_by(text, [&](std::size_t begin) { return matched_whole.find(text, begin); });
}

// The next token matched as a whole that is user-defined or that `foreign` has no part in.
token_trie::match tokenizer::find_outside(std::string_view text, std::size_t begin, std::span<const byte_range> foreign) const {
  for (std::size_t from = begin;;) {
    const token_trie::match longest = special_.find(text, from);
    const std::size_t end = longest.begin + longest.size_bytes;
    const auto range = std::ranges::upper_bound(foreign, longest.begin, {}, &byte_range::end);
    const bool apart = range == foreign.end() || range->begin >= end;
    if (longest.size_bytes == 0 || apart || types_[longest.token] == token_type::user_defined) return longest;

    // A shorter one may begin there: a control token before the range, or a user-defined one.
    token_trie::match best{longest.begin, 0, longest.token};
    const auto consider = [&](const token_trie& among, std::size_t before) {
      const token_trie::match found = among.find(text.substr(0, before), longest.begin);
      if (found.begin == longest.begin && found.size_bytes > best.size_bytes) best = found;
    };
    consider(user_defined_, end);
    if (range->begin > longest.begin) consider(special_, range->begin);
    if (best.size_bytes > 0) return best;
    from = longest.begin + 1;
  }
}

void tokenizer::encode_plain(std::string_view text, byte_pair_encoder& encoder, std::vector<token_id>& ids) const {
  for (const std::string_view piece : pre_.split(text)) {
    const auto whole = whole_pieces_.find(piece);
    if (whole != whole_pieces_.end()) {
      ids.push_back(whole->second);
    } else {
      encoder.encode(piece, ids);
    }
  }
}

std::vector<token_id> tokenizer::with_bos(std::vector<token_id> ids) const {
  const bool begins_with_bos = !ids.empty() && ids.front() == bos_;
  if (adds_bos_ && !begins_with_bos) ids.insert(ids.begin(), *bos_);
  return ids;
}

std::vector<token_id> tokenizer::encode_prompt(std::string_view text, bool parse_special) const { return with_bos(encode(text, parse_special)); }

std::vector<token_id> tokenizer::encode_prompt(std::string_view text, std::span<const byte_range> foreign) const {
  return with_bos(encode_by(text, [&](std::size_t begin) { return find_outside(text, begin, foreign); }));
}

std::string_view tokenizer::bytes_of(token_id id, bool special_as_text) const noexcept {
  if (!contains(id)) return {};
  if (types_[id] == token_type::control && !special_as_text) return {};
  return bytes_[id];
}

std::string tokenizer::decode(std::span<const token_id> ids, bool special_as_text) const {
  std::string bytes;
  for (const token_id id : ids) bytes += bytes_of(id, special_as_text);
  return bytes;
}

std::string_view tokenizer::text_of(token_id id) const noexcept {
  return contains(id) ? std::string_view(tokens_[id]) : std::string_view();
}

std::optional<token_id> tokenizer::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

bool tokenizer::ends_text(token_id id) const noexcept {
  return std::find(ends_text_.begin(), ends_text_.end(), id) != ends_text_.end();
}

}  // namespace ebb::model
