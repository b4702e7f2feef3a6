// tests/tools/support/demo.hpp: the demo model on host cards, and the conversation that tests have with it.
#pragma once
#include "tools/connection.hpp"
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace ebb::tools::test {

inline constexpr std::chrono::seconds patience{120};  // far more than anything takes, for machines under load and sanitizers

// Segments of 1 MiB: the cache of a card alone has 24 of them.
inline engine_options demo_on(std::size_t n_cards) {
  engine_options options;
  options.from.model = EBB_DEMO_MODEL;
  options.from.cards.assign(n_cards, card_choice{});
  options.from.vram_segment_bytes = 1u << 20;
  options.from.threads = 2;
  return options;
}

// Of a fixed length, and with the hash of every logit.
inline bus::generate greedy(std::uint32_t n_tokens) {
  bus::generate asked;
  asked.prompt = "In the beginning";
  asked.max_tokens = n_tokens;
  asked.temperature = 0.0f;
  asked.hash = true;
  asked.ignore_eos = true;
  return asked;
}

// What ask() gives, when it must be of this type.
template <class Body>
Body answer_of(connection& through, bus::command command) {
  auto reply = ask(through, std::move(command), patience);
  if (!reply) throw std::runtime_error(reply.error().text);
  return std::get<Body>(std::move(reply->body));
}

// The code of the error that a command is answered with; none if it succeeds.
inline errc code_of(connection& through, bus::command command) {
  const auto reply = ask(through, std::move(command), patience);
  return reply ? errc::none : reply.error().code;
}

// Asks again and again, since what is waited for is announced to nobody.
template <class Condition>
bool comes_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace ebb::tools::test
