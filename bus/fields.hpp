// bus/fields.hpp: the fields of every message, once: key, member, whether it must be there, what it may hold.
//
// The codec reads and writes by these lists and the text form prints by them, in this order; nothing else knows a key.
#pragma once
#include "bus/messages.hpp"
#include "config/limits.hpp"
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace ebb::bus {

enum class presence : std::uint8_t {
  required,         // always sent
  required_or_nil,  // always sent; an absent std::optional as nil
  optional,         // left out when it is an absent std::optional, or an empty text or list
};

// Between which bounds a number, the bytes of a text or the length of a list must lie. A type's own bounds hold besides.
struct range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
};

inline constexpr range any{};

template <class Owner, class T>
struct field {
  std::string_view key;
  T Owner::*member;
  presence when = presence::required;
  range allowed = any;
  range each = any;  // of a list's elements
};
template <class Owner, class T, class... Rest>
field(std::string_view, T Owner::*, Rest...) -> field<Owner, T>;

// What each message is called on the bus, and its fields.
template <class Message>
inline constexpr std::string_view name_of = {};
template <class Message>
inline constexpr std::tuple<> fields_of = {};
// A member whose fields lie in the same map, before the message's own.
template <class Message>
inline constexpr std::nullptr_t base_of = nullptr;

// --- commands

// The only list of maps in a command: what it may hold is checked as a command's own fields are.
template <>
inline constexpr auto fields_of<chat_message> = std::tuple{
    field{"role", &chat_message::role, presence::required, range{1, limits::chat_role_bytes_max}},
    field{"content", &chat_message::content},
    field{"name", &chat_message::name, presence::optional, range{1, limits::chat_role_bytes_max}},
};

template <>
inline constexpr std::string_view name_of<generate> = "generate";
template <>
inline constexpr auto fields_of<generate> = [] {
  using enum presence;
  constexpr double token_max = std::numeric_limits<token_id>::max();
  return std::tuple{
      field{"prompt", &generate::prompt, optional, range{1}},
      field{"ids", &generate::ids, optional, range{1, limits::prompt_ids_max}, range{0, token_max}},
      field{"messages", &generate::messages, optional, range{1, limits::chat_messages_max}},
      field{"max_tokens", &generate::max_tokens, optional, range{1}},
      field{"temperature", &generate::temperature, optional, range{0}},
      field{"top_k", &generate::top_k, optional},
      field{"top_p", &generate::top_p, optional, range{0, 1}},
      field{"min_p", &generate::min_p, optional, range{0, 1}},
      field{"repeat_penalty", &generate::repeat_penalty, optional, range{.least = 0, .least_excluded = true}},
      field{"repeat_last_n", &generate::repeat_last_n, optional},
      field{"seed", &generate::seed, optional},
      field{"stop", &generate::stop, optional, range{0, limits::stop_strings_max}, range{1, limits::stop_bytes_max}},
      field{"hash", &generate::hash, optional},
      field{"stream", &generate::stream, optional},
      field{"ignore_eos", &generate::ignore_eos, optional},
      field{"logprobs", &generate::logprobs, optional, range{0, limits::logprobs_max}},
  };
}();

template <>
inline constexpr std::string_view name_of<cancel> = "cancel";
template <>
inline constexpr auto fields_of<cancel> = std::tuple{field{"target", &cancel::target}};

template <>
inline constexpr std::string_view name_of<vram> = "vram";
template <>
inline constexpr auto fields_of<vram> = std::tuple{
    field{"reserve_mib", &vram::reserve_mib, presence::required_or_nil},
    field{"device", &vram::device, presence::optional},
};

template <>
inline constexpr std::string_view name_of<status> = "status";
template <>
inline constexpr std::string_view name_of<cards> = "cards";

template <>
inline constexpr std::string_view name_of<lease> = "lease";
template <>
inline constexpr auto fields_of<lease> = [] {
  using enum presence;
  return std::tuple{
      field{"action", &lease::action},
      field{"owner", &lease::owner, optional, range{1, limits::lease_owner_bytes_max}},
      field{"device", &lease::device, optional},
      field{"mib", &lease::mib, optional, range{1}},
      field{"min_mib", &lease::min_mib, optional, range{1}},
      field{"ttl_s", &lease::ttl_s, optional, range{1, limits::lease_ttl_s_max}},
      field{"wait_s", &lease::wait_s, optional, range{0, limits::lease_wait_s_max}},
      field{"pid", &lease::pid, optional, range{1, limits::pid_max}},
      field{"lease_id", &lease::lease_id, optional},
  };
}();

template <>
inline constexpr std::string_view name_of<plan> = "plan";
template <>
inline constexpr auto fields_of<plan> = std::tuple{
    field{"reserve_mib", &plan::reserve_mib, presence::required_or_nil},
    field{"device", &plan::device, presence::optional},
};

template <>
inline constexpr std::string_view name_of<subscribe> = "subscribe";

template <>
inline constexpr std::string_view name_of<tokenize> = "tokenize";
template <>
inline constexpr auto fields_of<tokenize> = std::tuple{
    field{"text", &tokenize::text, presence::required, range{0, limits::tokenize_bytes_max}},
    field{"special", &tokenize::special, presence::optional},
};

template <>
inline constexpr std::string_view name_of<detokenize> = "detokenize";
template <>
inline constexpr auto fields_of<detokenize> = std::tuple{
    field{"ids", &detokenize::ids, presence::required, range{0, limits::prompt_ids_max}, range{0, std::numeric_limits<token_id>::max()}},
};

template <>
inline constexpr std::string_view name_of<experts> = "experts";

// --- replies

template <>
inline constexpr auto fields_of<token_logprob> = std::tuple{
    field{"token", &token_logprob::id},
    field{"text", &token_logprob::text},
    field{"logprob", &token_logprob::logprob},
};

template <>
inline constexpr std::string_view name_of<token> = "token";
template <>
inline constexpr auto fields_of<token> = std::tuple{
    field{"index", &token::index},
    field{"token", &token::id},
    field{"text", &token::text},
    field{"logprob", &token::logprob, presence::optional},
    field{"top", &token::top, presence::optional},
};

template <>
inline constexpr std::string_view name_of<done> = "done";
template <>
inline constexpr auto fields_of<done> = std::tuple{
    field{"text", &done::text},
    field{"finish", &done::finish},
    field{"prompt_tokens", &done::prompt_tokens},
    field{"generated_tokens", &done::generated_tokens},
    field{"prompt_ms", &done::prompt_ms},
    field{"decode_ms", &done::decode_ms},
    field{"tokens_per_s", &done::tokens_per_s},
    field{"hit_rate", &done::hit_rate},
    field{"gap_ms_max", &done::gap_ms_max},
    field{"hash", &done::hash},
};

template <>
inline constexpr auto fields_of<card_report> = std::tuple{
    field{"device", &card_report::device},
    field{"reserve_mib", &card_report::reserve_mib},
    field{"expert_slots", &card_report::expert_slots},
    field{"expert_slots_full", &card_report::expert_slots_full},
    field{"expert_cache_mib", &card_report::expert_cache_mib},
    field{"expert_cache_full_mib", &card_report::expert_cache_full_mib},
    field{"vram_free_mib", &card_report::vram_free_mib},
    field{"prompt_chunk", &card_report::prompt_chunk},
    field{"short_mib", &card_report::short_mib},
    field{"took_ms", &card_report::took_ms},
};

template <>
inline constexpr std::string_view name_of<vram_report> = "vram";
template <>
inline constexpr auto fields_of<vram_report> = std::tuple{field{"cards", &vram_report::cards}};

template <>
inline constexpr auto base_of<card_info> = &card_info::report;
template <>
inline constexpr auto fields_of<card_info> = std::tuple{
    field{"kind", &card_info::kind},           field{"layer_begin", &card_info::layer_begin},
    field{"layer_end", &card_info::layer_end}, field{"resident", &card_info::resident},
    field{"fast_path", &card_info::fast_path}, field{"hits", &card_info::hits},
    field{"misses", &card_info::misses},       field{"misses_cpu", &card_info::misses_cpu},
    field{"misses_copied", &card_info::misses_copied},
    field{"flips", &card_info::flips},         field{"slots_to_fill", &card_info::slots_to_fill},
    field{"rss_mib", &card_info::rss_mib},     field{"memory_mib", &card_info::memory_mib},
    field{"gpu", &card_info::gpu, presence::optional},
    field{"gpu_name", &card_info::gpu_name, presence::optional},
    field{"pci_address", &card_info::pci_address, presence::optional},
    field{"uuid", &card_info::uuid, presence::optional},
    field{"held_mib", &card_info::held_mib, presence::optional},
};

template <>
inline constexpr std::string_view name_of<cards_report> = "cards";
template <>
inline constexpr auto fields_of<cards_report> = std::tuple{field{"cards", &cards_report::cards}};

template <>
inline constexpr std::string_view name_of<status_report> = "status";
template <>
inline constexpr auto fields_of<status_report> = std::tuple{
    field{"version", &status_report::version},
    field{"state", &status_report::state},
    field{"model", &status_report::model},
    field{"architecture", &status_report::architecture},
    field{"layers", &status_report::layers},
    field{"experts", &status_report::experts},
    field{"context", &status_report::context},
    field{"sessions", &status_report::sessions},
    field{"sessions_max", &status_report::sessions_max},
    field{"waiting", &status_report::waiting},
    field{"uptime_s", &status_report::uptime_s},
    field{"tokens_generated", &status_report::tokens_generated},
    field{"windows", &status_report::windows},
    field{"rss_mib", &status_report::rss_mib},
    field{"rss_anon_mib", &status_report::rss_anon_mib},
    field{"prompt_tokens", &status_report::prompt_tokens},
    field{"gap_counts", &status_report::gap_counts},
    field{"gap_ms_sum", &status_report::gap_ms_sum},
};

template <>
inline constexpr std::string_view name_of<cancelled> = "cancelled";

template <>
inline constexpr auto fields_of<lease_info> = std::tuple{
    field{"lease_id", &lease_info::lease_id}, field{"owner", &lease_info::owner},         field{"device", &lease_info::device},
    field{"mib", &lease_info::mib},           field{"ends_in_s", &lease_info::ends_in_s}, field{"pid", &lease_info::pid},
};

template <>
inline constexpr std::string_view name_of<lease_report> = "lease";
template <>
inline constexpr auto fields_of<lease_report> = std::tuple{
    field{"leases", &lease_report::leases},
    field{"cards", &lease_report::cards},
    field{"warning", &lease_report::warning},
};

template <>
inline constexpr auto fields_of<card_plan> = std::tuple{
    field{"device", &card_plan::device},
    field{"layers", &card_plan::layers},
    field{"reserve_mib", &card_plan::reserve_mib},
    field{"expert_slots", &card_plan::expert_slots},
    field{"expert_cache_mib", &card_plan::expert_cache_mib},
    field{"short_mib", &card_plan::short_mib},
    field{"hit_rate", &card_plan::hit_rate},
    field{"hit_rate_now", &card_plan::hit_rate_now},
    field{"ms_per_token", &card_plan::ms_per_token},
    field{"ms_per_token_now", &card_plan::ms_per_token_now},
};

template <>
inline constexpr std::string_view name_of<plan_report> = "plan";
template <>
inline constexpr auto fields_of<plan_report> = std::tuple{
    field{"cards", &plan_report::cards},
    field{"hit_rate", &plan_report::hit_rate},
    field{"hit_rate_now", &plan_report::hit_rate_now},
    field{"tokens_per_s", &plan_report::tokens_per_s},
    field{"tokens_per_s_now", &plan_report::tokens_per_s_now},
};

template <>
inline constexpr std::string_view name_of<subscribed> = "subscribed";
template <>
inline constexpr auto fields_of<subscribed> = std::tuple{
    field{"endpoints", &subscribed::endpoints},
    field{"sequence", &subscribed::sequence},
};

template <>
inline constexpr std::string_view name_of<tokenized> = "tokenized";
template <>
inline constexpr auto fields_of<tokenized> = std::tuple{
    field{"ids", &tokenized::ids},
    field{"pieces", &tokenized::pieces},
};

template <>
inline constexpr std::string_view name_of<detokenized> = "detokenized";
template <>
inline constexpr auto fields_of<detokenized> = std::tuple{field{"text", &detokenized::text}};

template <>
inline constexpr auto fields_of<expert_map> = std::tuple{
    field{"device", &expert_map::device},     field{"layer_begin", &expert_map::layer_begin},
    field{"layer_end", &expert_map::layer_end}, field{"experts", &expert_map::experts},
    field{"resident", &expert_map::resident}, field{"heat", &expert_map::heat},
    field{"heat_max", &expert_map::heat_max},
};

template <>
inline constexpr std::string_view name_of<experts_report> = "experts";
template <>
inline constexpr auto fields_of<experts_report> = std::tuple{field{"cards", &experts_report::cards}};

template <>
inline constexpr std::string_view name_of<error> = "error";
template <>
inline constexpr auto fields_of<error> = std::tuple{
    field{"code", &error::code},
    field{"text", &error::text},
};

// Calls visit(field, owner) for every field of `message`, in order. `Message` may be const.
template <class Message, class Visit>
void for_each_field(Message& message, Visit&& visit) {
  using plain = std::remove_const_t<Message>;
  if constexpr (!std::is_null_pointer_v<std::remove_const_t<decltype(base_of<plain>)>>) for_each_field(message.*base_of<plain>, visit);
  std::apply([&](const auto&... each) { (visit(each, message), ...); }, fields_of<plain>);
}

}  // namespace ebb::bus
