// actors/batcher.hpp: which sessions run, and which of their rows make up the next window.
//
// A session waits until a place is free, reads its prompt in chunks, then decodes a token a window until its answer ends. Every
// session that decodes has a row in every window; prompts share what is left, a chunk each, so a long prompt never stops the others.
// Where several windows may be under way at a time, so that each device has one, the sessions are shared out between them: a session that
// decodes is in one window at a time, since its next token comes from it; a prompt may go on in the next window while the last is under way.
// A plain class: no CAF, no device; times are handed in. What a session costs and yields is counted here.
#pragma once
#include "actors/clock.hpp"
#include "actors/gap_histogram.hpp"
#include "actors/messages.hpp"
#include "config/limits.hpp"
#include <deque>
#include <optional>
#include <unordered_map>

namespace ebb::actors {

// Rows of one prompt in one window. A device that reads its weights once for all rows gains by more of them, and each delays the
// tokens of the sessions that decode.
struct prompt_chunk {
  std::uint32_t alone = limits::prompt_chunk_rows;   // while no session decodes, shared by the prompts that are read
  std::uint32_t shared = limits::prompt_chunk_rows;  // while one does, of each prompt; at most `alone`
};

class batcher {
 public:
  // `places` sessions at a time and as many windows, > 0 each; chunks of 1 to limits::window_rows_max rows (asserts).
  explicit batcher(std::uint32_t places, prompt_chunk chunk = {}, std::uint32_t windows_max = 1);

  // Pre: a fresh id; the prompt is not empty (asserts).
  void submit(session_id session, std::shared_ptr<const session_order> order, time_point now);

  // The next session that may begin, if one waits and a place is free; call until it gives nothing.
  std::optional<session_opening> admit();

  // Leaves a running session out of the windows to come, until it is removed.
  void hold(session_id session);

  // Forgets a session, wherever it is; its place if it had one. Pre: it is in no window under way (asserts).
  struct removed {
    bool known = false;
    std::optional<std::uint32_t> place;
  };
  removed remove(session_id session);

  // What the client of a running session is told when it ends now.
  bus::done summary(session_id session, model::finish reason, std::string logits_hash, time_point now) const;

  // The next window, without rows if there is nothing to do. It is under way until it is completed or ends without having run; windows
  // must pass each stage in the order in which they were made. `repeat_max`: how often the card may go on alone when every row decodes and
  // nobody waits whom a free place could take.
  window next_window(std::uint32_t repeat_max);
  void goes_on(const window& following);  // a card has begun it of its own accord: it is under way
  void not_run(const window& begun);      // it ended before it ran: its rows come again
  void give_up_windows() noexcept;        // none that is under way will be answered. Pre: every session that runs is removed next

  // Adds up a stage's hits for the window's rows.
  void count_hits(const window& done, const window_result& answer);

  // Takes the last stage's result of a window: positions move on and tokens come out, in the window's order.
  // The sessions of tokens with a finish are still known, until they are removed.
  std::vector<session_token> complete(const window& done, const window_result& answer, time_point now);

  bool running(session_id session) const { return running_.contains(session); }
  bool under_way(session_id session) const;  // it runs, and is in a window that is
  std::vector<session_id> sessions() const;  // waiting ones too
  std::uint32_t running_count() const noexcept { return static_cast<std::uint32_t>(running_.size()); }
  std::uint32_t waiting_count() const noexcept { return static_cast<std::uint32_t>(waiting_.size()); }
  std::uint32_t places() const noexcept { return static_cast<std::uint32_t>(of_place_.size()); }
  std::uint64_t windows() const noexcept { return windows_; }
  std::uint64_t tokens() const noexcept { return tokens_; }
  std::uint64_t prompt_tokens() const noexcept { return prompt_tokens_; }  // of windows that have ended
  const gap_histogram& gaps() const noexcept { return gaps_; }             // between two tokens of an answer
  bool has_room() const noexcept { return running_.size() < of_place_.size(); }

 private:
  struct session_entry {
    std::shared_ptr<const session_order> order;
    std::uint32_t place = 0;
    std::uint32_t position = 0;             // rows given to windows so far: in the keys and values, or on their way there
    std::uint32_t windows = 0;              // under way that have rows of it
    std::optional<token_id> last;           // the newest token of the answer; none while the prompt is read
    bool held = false;
    bool decodes() const noexcept { return !held && last.has_value(); }
    bool reads_prompt() const noexcept { return !held && position < order->prompt.size(); }
    std::uint64_t generated = 0;
    std::uint64_t hits = 0, picks = 0;
    time_point submitted{}, first_token{}, last_token{};
    double gap_ms_max = 0;
  };

  std::size_t chunk_rows() const;
  std::size_t sessions_a_window() const noexcept;
  void add_decode_rows(window& next, std::size_t sessions_max);
  void add_prompt_rows(window& next, std::size_t sessions_max);
  std::vector<session_id> prompts_to_read() const;
  void add_chunk(window& next, session_id session, std::size_t chunk);
  template <class Visit>
  void each_session_of(const window& of, Visit visit);

  prompt_chunk chunk_;
  std::uint32_t windows_max_;
  std::unordered_map<session_id, session_entry> running_;
  std::deque<std::pair<session_id, session_entry>> waiting_;
  std::vector<std::optional<session_id>> of_place_;  // [places]
  std::uint64_t numbers_ = 0;  // of windows begun here; a card that repeats keeps the number
  std::uint64_t windows_ = 0;  // that have ended
  std::uint64_t tokens_ = 0;
  std::uint64_t prompt_tokens_ = 0;
  gap_histogram gaps_;
};

// The window that follows when every row of `done` decoded and no answer ended: each session's newest token at its next position.
window following(const window& done, const window_result& answer);

}  // namespace ebb::actors
