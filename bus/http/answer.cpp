#include "bus/http/answer.hpp"
#include "bus/http/json_response.hpp"
#include "config/limits.hpp"
#include <algorithm>
#include <utility>

namespace ebb::bus::http {
namespace {

// Until then a refusal is a status; a client that waits longer is told by a comment that it waits.
constexpr std::chrono::seconds first_word{10};

std::uint64_t unix_s_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

problem problem_of_end(const done& summary) {
  return problem_of({errc::cancelled, "the answer was ended after " + std::to_string(summary.generated_tokens) + " tokens"}, asked_for::answer);
}

}  // namespace

answer::answer(context& of, answer_request wanted, std::shared_ptr<peer> whose, room::places place)
    : of_(of),
      wanted_(std::move(wanted)),
      place_(std::move(place)),
      shapes_(wanted_.chat, wanted_.logprobs, of.model, of.version, unix_s_now()),
      choices_(wanted_.choices.size()),
      peer_(std::move(whose)),
      daemon_(of.port, peer_) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].so_far.text = wanted_.echoes[i];
    choices_[i].offset = wanted_.echoes[i].size();
    daemon_.submit({std::uint64_t{i}}, wanted_.choices[i]);
  }
}

std::optional<answer::news> answer::next(std::chrono::steady_clock::duration patience) {
  auto reply = daemon_.next(patience);
  if (!reply && reply.error().code == errc::timed_out) return std::nullopt;
  if (!reply) return news{0, problem_of(reply.error(), asked_for::answer)};
  // A frame that could not be read is refused without an id; it is one of ours, and ends all.
  const auto* number = std::get_if<std::uint64_t>(&reply->id.value);
  const std::size_t index = number != nullptr ? *number : 0;
  if (auto* what = std::get_if<token>(&reply->body)) return news{index, std::move(*what)};
  if (const auto* why = std::get_if<error>(&reply->body)) return news{index, with_field(problem_of(*why, asked_for::answer), "ids", "prompt")};
  auto& summary = std::get<done>(reply->body);
  if (summary.finish == "cancelled") return news{index, problem_of_end(summary)};
  return news{index, std::move(summary)};
}

// The token's own text, which the answer's may not show yet, or never: it ends in the middle of a character, or is special.
std::string answer::own_text(const token& what) {
  for (const token_logprob& each : what.top) {
    if (each.id == what.id) return each.text;
  }
  const auto known = texts_.find(what.id);
  if (known != texts_.end()) return known->second;
  call asking(of_.port, nullptr);
  auto text = asking.ask<detokenized>(detokenize{{what.id}}, limits::http_answer_timeout);
  return texts_[what.id] = text ? std::move(text->text) : what.text;
}

std::vector<seen_token> answer::seen(const token& what) {
  if (!what.logprob) return {};
  return {{own_text(what), *what.logprob, what.top}};
}

token_usage answer::usage() const {
  token_usage all;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const done& summary = choices_[i].so_far.summary;
    all.completion_tokens += summary.generated_tokens;
    if (i % wanted_.per_prompt == 0) all.prompt_tokens += summary.prompt_tokens;
  }
  return all;
}

response answer::whole() {
  std::size_t open = choices_.size();
  while (open > 0) {
    auto came = next(limits::http_answer_timeout);
    if (!came) continue;  // the daemon ends every answer; how long one takes is the client's wish
    if (const auto* why = std::get_if<problem>(&came->what)) return response_of(*why);
    finished_choice& of = choices_[came->index].so_far;
    if (const auto* what = std::get_if<token>(&came->what)) {
      of.text += what->text;
      for (seen_token& each : seen(*what)) of.tokens.push_back(std::move(each));
      continue;
    }
    of.summary = std::get<done>(std::move(came->what));
    of.text += of.summary.text;
    --open;
  }
  const token_usage sum = usage();
  std::vector<finished_choice> all;
  for (choice& each : choices_) all.push_back(std::move(each.so_far));
  return json_response(shapes_.whole(all, sum));
}

response answer::streamed(const std::shared_ptr<answer>& self) {
  self->first_ = self->next(first_word);
  if (self->first_) {
    if (const auto* why = std::get_if<problem>(&self->first_->what)) return response_of(*why);
  }
  return {.status = 200, .type = "text/event-stream", .body = {}, .headers = {}, .stream = [self](body_writer& out) { self->write_all(out); }};
}

bool answer::write_data(body_writer& out, const answer_shapes::json& what) { return out.write("data: " + to_line(what) + "\n\n"); }

void answer::write_all(body_writer& out) {
  for (std::size_t i = 0; wanted_.chat && i < choices_.size(); ++i) {
    if (!write_data(out, shapes_.opening_chunk(i, wanted_.include_usage))) return;
  }
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!wanted_.echoes[i].empty() && !write_data(out, shapes_.text_chunk(i, wanted_.echoes[i], {}, 0, wanted_.include_usage))) return;
  }
  if (first_ && !write_news(out, *std::exchange(first_, std::nullopt))) return;
  while (!std::all_of(choices_.begin(), choices_.end(), [](const choice& each) { return each.ended; })) {
    const auto came = next(limits::http_ping_interval);
    if (came ? !write_news(out, *came) : !out.write(": waiting\n\n")) return;
  }
  if (wanted_.include_usage && !write_data(out, shapes_.usage_chunk(usage()))) return;
  out.write("data: [DONE]\n\n");
}

bool answer::write_news(body_writer& out, const news& what) {
  if (const auto* why = std::get_if<problem>(&what.what)) {
    out.write("data: " + body_of(*why) + "\n\n");
    return false;
  }
  if (const auto* one = std::get_if<token>(&what.what)) return write_token(out, what.index, *one);
  choice& of = choices_[what.index];
  of.so_far.summary = std::get<done>(what.what);
  of.ended = true;
  return write_data(out, shapes_.finish_chunk(what.index, of.so_far.summary, wanted_.include_usage));
}

bool answer::write_token(body_writer& out, std::size_t index, const token& what) {
  const auto tokens = seen(what);
  if (what.text.empty() && tokens.empty()) return true;
  choice& of = choices_[index];
  const std::size_t offset = of.offset;
  for (const seen_token& each : tokens) of.offset += each.text.size();
  return write_data(out, shapes_.text_chunk(index, what.text, tokens, offset, wanted_.include_usage));
}

}  // namespace ebb::bus::http
