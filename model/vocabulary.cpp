#include "model/vocabulary.hpp"
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::model {
namespace {

constexpr std::string_view key_prefix = "tokenizer.ggml.";
constexpr std::array<std::string_view, 2> end_of_text_keys = {"eot_token_id", "eom_token_id"};

// Reads keys behind "tokenizer.ggml." and keeps the first error, so that a vocabulary reads as a list of its keys.
class vocabulary_reader {
 public:
  explicit vocabulary_reader(const gguf& file) : file_(file) {}

  template <class T>
  T required(std::string_view key) {
    return keep(file_.require<T>(full(key)));
  }
  template <class T>
  std::optional<T> present(std::string_view key) {
    return keep(file_.optional<T>(full(key)));
  }
  std::vector<std::string> strings(std::string_view key) {
    const auto views = required<std::vector<std::string_view>>(key);
    return {views.begin(), views.end()};
  }
  // An index into a vocabulary of n_vocab tokens.
  std::optional<token_id> token(std::string_view key, std::size_t n_vocab) {
    const auto id = present<std::uint32_t>(key);
    if (!id) return std::nullopt;
    if (*id >= n_vocab) {
      refuse(errc::corrupt, key, "is " + std::to_string(*id) + ", but there are " + std::to_string(n_vocab) + " tokens");
    }
    return static_cast<token_id>(*id);
  }

  void refuse(errc code, std::string_view key, const std::string& what) {
    if (!failure_) failure_ = error{code, file_.name() + ": key " + in_quotes(full(key)) + " " + what + "."};
  }

  const std::optional<error>& failure() const noexcept { return failure_; }

 private:
  static std::string full(std::string_view key) { return std::string(key_prefix) + std::string(key); }

  template <class T>
  T keep(result<T> value) {
    if (value) return *std::move(value);
    if (!failure_) failure_ = std::move(value.error());
    return T{};
  }

  const gguf& file_;
  std::optional<error> failure_;
};

tokenizer_spec read_spec(vocabulary_reader& in) {
  tokenizer_spec out;
  out.tokens = in.strings("tokens");
  out.merges = in.strings("merges");
  out.token_types = in.present<std::vector<std::int32_t>>("token_type").value_or(std::vector<std::int32_t>());
  out.pre = in.present<std::string_view>("pre").value_or("");
  out.bos = in.token("bos_token_id", out.tokens.size());
  out.eos = in.token("eos_token_id", out.tokens.size());
  for (const std::string_view key : end_of_text_keys) {
    if (const auto id = in.token(key, out.tokens.size())) out.end_of_text.push_back(*id);
  }
  out.add_bos = in.present<bool>("add_bos_token");
  return out;
}

}  // namespace

result<std::shared_ptr<const tokenizer>> read_vocabulary(const gguf& file) {
  vocabulary_reader in(file);
  const auto kind = in.required<std::string_view>("model");
  if (kind != "gpt2") in.refuse(errc::unsupported_tokenizer, "model", "is " + in_quotes(kind) + "; only \"gpt2\" is supported");
  if (in.failure()) return fail(*in.failure());
  tokenizer_spec spec = read_spec(in);
  const auto embedding = file.require_tensor("token_embd.weight");
  if (!embedding) return fail(embedding.error());
  // Rows beyond the vocabulary are common: they pad it to a round number.
  if (const std::uint64_t n_rows = (*embedding)->dims[1]; spec.tokens.size() > n_rows) {
    in.refuse(errc::corrupt, "tokens",
              "has " + std::to_string(spec.tokens.size()) + " tokens, but token_embd.weight only " + std::to_string(n_rows) + " rows");
  }
  if (in.failure()) return fail(*in.failure());
  auto made = tokenizer::make(std::move(spec));
  if (!made) return fail(made.error().code, file.name() + ": " + made.error().text);
  return std::make_shared<const tokenizer>(*std::move(made));
}

void write_vocabulary(const tokenizer_spec& spec, gguf_keys& out) {
  EBB_ASSERT(spec.end_of_text.size() <= end_of_text_keys.size());
  const auto full = [](std::string_view key) { return std::string(key_prefix) + std::string(key); };
  const auto set_token = [&](std::string_view key, token_id id) { out.set(full(key), static_cast<std::uint32_t>(id)); };
  out.set(full("model"), std::string("gpt2"));
  if (!spec.pre.empty()) out.set(full("pre"), spec.pre);
  out.set_array(full("tokens"), spec.tokens);
  out.set_array(full("merges"), spec.merges);
  if (!spec.token_types.empty()) out.set_array(full("token_type"), spec.token_types);
  if (spec.bos) set_token("bos_token_id", *spec.bos);
  if (spec.eos) set_token("eos_token_id", *spec.eos);
  for (std::size_t i = 0; i < spec.end_of_text.size(); ++i) set_token(end_of_text_keys[i], spec.end_of_text[i]);
  if (spec.add_bos) out.set(full("add_bos_token"), *spec.add_bos);
}

}  // namespace ebb::model
