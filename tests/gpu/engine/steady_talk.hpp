// tests/gpu/engine/steady_talk.hpp: the same answer again and again, so that one is always under way; each must have the hash of the first.
#pragma once
#include "tests/gpu/engine/served.hpp"
#include "tools/spread.hpp"

namespace ebb::tools::test {

using actors::time_point;
inline time_point now() { return std::chrono::steady_clock::now(); }

class steady_talk {
 public:
  steady_talk(served& with, bus::generate asked, std::string expected_hash)
      : with_(&with), asked_(std::move(asked)), expected_hash_(std::move(expected_hash)) {
    begin();
  }

  // Begins anew if the last answer has ended. Call it between two things that are done meanwhile.
  void go_on() {
    if (!with_->talk().answered(id_)) return;
    end();
    begin();
  }

  // Until so many more tokens have come, of this answer and the next ones.
  void wait_for_tokens(std::size_t count) {
    const std::size_t until = n_tokens() + count;
    for (go_on(); n_tokens() < until; go_on()) take();
  }

  // Lets the answer go on until something else is so; false: it does not come within test::patience.
  template <class Condition>
  bool goes_on_until(Condition condition) {
    for (const time_point deadline = now() + patience; !condition();) {
      if (now() > deadline) return false;
      wait_for_tokens(1);
    }
    return true;
  }

  // Ends the last one. Whether every answer had the hash that was expected.
  bool finish() {
    end();
    return same_;
  }
  std::size_t n_answers() const noexcept { return ended_.size(); }

  // --- of answers that have ended, so after finish()
  // The largest gap between two tokens of one answer of which a part lies between these times; in ms.
  double gap_ms_max(time_point from, time_point to) const {
    double most = 0;
    each_gap([&](time_point begin, time_point end) {
      if (end > from && begin < to) most = std::max(most, actors::milliseconds_between(begin, end));
    });
    return most;
  }

  // Of the gaps that lie wholly between these times; 0: there is none.
  double tokens_per_s(time_point from, time_point to) const {
    double ms = 0;
    std::size_t count = 0;
    each_gap([&](time_point begin, time_point end) {
      if (begin < from || end > to) return;
      ms += actors::milliseconds_between(begin, end);
      ++count;
    });
    return ms > 0 ? static_cast<double>(count) * 1000 / ms : 0;
  }

 private:
  const std::vector<time_point>& current() const { return with_->talk().token_times(id_); }

  std::size_t n_tokens() const {
    std::size_t count = current().size();
    for (const auto& times : ended_) count += times.size();
    return count;
  }

  void begin() {
    auto begun = with_->talk().begin(asked_);
    if (!begun) throw std::runtime_error(begun.error().text);
    id_ = *std::move(begun);
  }

  void take() {
    if (auto taken = with_->talk().take(patience); !taken) throw std::runtime_error(taken.error().text);
  }

  void end() {
    while (!with_->talk().answered(id_)) take();
    ended_.push_back(current());
    const bus::done done = with_->finished(id_);
    same_ = same_ && done.hash == expected_hash_;
  }

  template <class Visit>
  void each_gap(Visit visit) const {
    for (const auto& times : ended_) {
      for (std::size_t i = 1; i < times.size(); ++i) visit(times[i - 1], times[i]);
    }
  }

  served* with_;
  bus::generate asked_;
  std::string expected_hash_;
  bus::request_id id_;
  std::vector<std::vector<time_point>> ended_;  // [answers]
  bool same_ = true;
};

}  // namespace ebb::tools::test
