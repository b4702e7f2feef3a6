#include "config/setting_keys.hpp"
#include "config/limits.hpp"
#include "config/nearest.hpp"
#include "config/setting_forms.hpp"
#include <algorithm>
#include <limits>

namespace ebb {
namespace {

// These only catch a slip of the keyboard: they lie above any machine and any model of today.
constexpr std::uint32_t mib_max = 1u << 24;
constexpr std::uint32_t tokens_max = 1u << 24;
constexpr std::uint32_t threads_max = 4096;
constexpr std::uint32_t top_k_max = 1u << 24;
constexpr std::uint64_t seed_max = std::numeric_limits<std::int64_t>::max();  // the largest number that TOML can write

enum class change : bool { at_start_only, editable };

// One row: `field` finds the member in a settings, `form` says what its values look like.
template <class Field, class Form>
setting_key key(std::string_view name, std::string_view why, Field field, Form form, change changes = change::at_start_only) {
  const auto assign = [field, form](settings& into, const written_value& value) {
    auto read = form.read(value);
    if (!read) return false;
    field(into) = *std::move(read);
    return true;
  };
  const auto show = [field, form](const settings& from) { return form.write(field(from)); };
  return {name, why, form.allowed(), changes == change::editable, assign, show};
}

// A function from a settings, const or not, to one member of it.
#define EBB_FIELD(member) /* NOLINT(bugprone-macro-parentheses): a member stands in none */ \
  [](auto& of) -> auto& { return of.member; }

std::vector<setting_key> make_keys() {
  using forms::number;
  using forms::text;
  using whole32 = forms::whole<std::uint32_t>;
  using whole64 = forms::whole<std::uint64_t>;
  const text path{"a path, or \"\" for none"};
  return {
      key("model", "The GGUF file to serve; of a model in several shards, the first.", EBB_FIELD(model), path),
      key("cards",
          "The devices that keep experts: a GPU, or RAM on a machine without one. \"auto\" takes every GPU, or else one host card; cards that name the same GPU share it.",
          EBB_FIELD(cards), forms::cards{}),
      key("layers", "Where the model is cut into stages, one a card. \"auto\" cuts by what is free on each GPU, and by which experts were hot in earlier runs; evenly where a host card is among the cards.", EBB_FIELD(layers),
          forms::first_layers{}),
      key("parallel", "Sessions that are answered at the same time; the others wait.", EBB_FIELD(parallel),
          whole32{1, limits::sessions_max}),
      key("context", "Tokens that one session may hold. 0 is what the model was trained for.", EBB_FIELD(context), whole32{0, tokens_max}),
      key("threads", "CPU threads that compute the experts which are not on a card. 0 is one a core.", EBB_FIELD(threads),
          whole32{0, threads_max}),
      key("vram_elastic", "Whether the caches of the cards may shrink and grow while Ebb runs.", EBB_FIELD(vram_elastic), forms::flag{},
          change::editable),
      key("vram_segment_mib", "The unit in which a cache is mapped and given back: smaller ones waste less, larger ones are mapped faster.",
          EBB_FIELD(vram_segment_bytes), forms::segment_size{}, change::editable),
      key("vram_reserve_mib", "MiB that stay free on a card for the desktop and for other programs.", EBB_FIELD(vram_reserve_mib),
          forms::reserves{mib_max}, change::editable),
      key("host_card_mib", "The size of each host card. 0 is as much as its cache needs.", EBB_FIELD(host_card_mib), whole32{0, mib_max}),
      key("min_free_vram_mib",
          "MiB that must be free by the driver's figure: a start waits for it on every GPU, up to a minute (without NVML only once it has a context there, "
          "whose memory is then in use), below it no cache grows, and auto_yield gives back. 0 is the reserve, for auto_yield at least 256, and waits for "
          "nothing.",
          EBB_FIELD(min_free_vram_mib), whole32{0, mib_max}, change::editable),
      key("auto_yield", "Whether Ebb gives VRAM back by itself when another program takes what was free.", EBB_FIELD(auto_yield),
          forms::flag{}),
      key("profile", "Where the daemon keeps which experts were hot, so that the next start fills the caches well.", EBB_FIELD(profile),
          text{"a path, \"off\" for none, or \"\" for a file of the model's name in state_dir"}),
      key("state_dir", "Where reserves and leases survive a restart.", EBB_FIELD(state_dir),
          text{"a folder, or \"\" for $XDG_STATE_HOME/ebb"}),
      key("journal", "A file to which every message in and out is appended, for `ebb replay`.", EBB_FIELD(journal), path),
      key("bus.listen", "Where commands come in. \"auto\" is ipc://$XDG_RUNTIME_DIR/ebb/commands, which only this user can open.",
          EBB_FIELD(bus.listen), forms::endpoints{}),
      key("bus.events", "Where events go out. \"auto\" is ipc://$XDG_RUNTIME_DIR/ebb/events.", EBB_FIELD(bus.events),
          forms::endpoints{.may_be_none = true}),
      key("bus.curve_keys", "A file of CURVE keys (`ebb keys server`), without which an address that other machines can reach is refused.",
          EBB_FIELD(bus.curve_keys), path),
      key("http.listen", "Where HTTP is served.", EBB_FIELD(http.listen), forms::address{}),
      key("http.api_key_file", "A file with the key that every HTTP request must bring.", EBB_FIELD(http.api_key_file), path),
      key("http.trusted_origins", "Web pages from elsewhere that a browser may let talk to Ebb.", EBB_FIELD(http.trusted_origins),
          forms::origins{}),
      key("sampling.temperature",
          "How freely tokens are drawn. 0 always takes the likeliest, so that the same request has the same answer.",
          EBB_FIELD(sampling.temperature), number{0.0F, 100.0F}),
      key("sampling.top_k", "Draw among this many of the likeliest tokens. 0 is off.", EBB_FIELD(sampling.top_k), whole32{0, top_k_max}),
      key("sampling.top_p", "Draw among the likeliest tokens that together have this probability. 1 is off.", EBB_FIELD(sampling.top_p),
          number{0.0F, 1.0F}),
      key("sampling.min_p", "Leave out tokens below this share of the likeliest one's probability. 0 is off.", EBB_FIELD(sampling.min_p),
          number{0.0F, 1.0F}),
      key("sampling.repeat_penalty", "How much a token that came lately is held back. 1 is off.", EBB_FIELD(sampling.repeat_penalty),
          number{0.01F, 100.0F}),
      key("sampling.repeat_last_n", "How many tokens count as lately.", EBB_FIELD(sampling.repeat_last_n), whole32{0, tokens_max}),
      key("sampling.seed", "Where the random numbers start: the same seed draws the same tokens.", EBB_FIELD(sampling.seed),
          whole64{0, seed_max}),
      key("sampling.max_tokens", "The longest answer, in tokens.", EBB_FIELD(sampling.max_tokens), whole32{1, tokens_max}),
  };
}

#undef EBB_FIELD

}  // namespace

const std::vector<setting_key>& setting_keys() {
  static const std::vector<setting_key> keys = make_keys();
  return keys;
}

const setting_key* find_setting_key(std::string_view name) {
  const auto& keys = setting_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const setting_key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

result<void> assign_setting(settings& into, std::string_view name, const written_value& value, std::string_view place) {
  const setting_key* const key = find_setting_key(name);
  if (!key) {
    std::vector<std::string_view> known;
    for (const setting_key& one : setting_keys()) known.push_back(one.name);
    const std::string guess = did_you_mean(name, known);
    return fail(errc::unknown_key, std::string(place) + ": there is no setting \"" + std::string(name) + "\"" +
                                       (guess.empty() ? "; config/ebb.toml shows all of them" : guess));
  }
  if (key->assign(into, value)) return {};
  return fail(errc::bad_value,
              std::string(place) + ": " + std::string(name) + " = " + value.as_written() + " is not allowed; allowed: " + key->allowed);
}

}  // namespace ebb
