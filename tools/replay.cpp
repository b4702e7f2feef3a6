#include "tools/replay.hpp"
#include "bus/codec.hpp"
#include "bus/journal_reader.hpp"
#include "config/limits.hpp"
#include "tools/replay_masks.hpp"
#include "tools/reply_fields.hpp"
#include "tools/virtual_engine.hpp"
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace ebb::tools {
namespace {

// What replies are put in order by. Text answers and those to frames without a readable id share one.
struct request_key {
  bus::client_id client;
  bus::request_id id;
  bool text = false;
  friend auto operator<=>(const request_key&, const request_key&) = default;
};

request_key key_of_request(const bus::client_id& from, bus::bytes_view frame) {
  const auto asked = bus::decode_request(frame);
  return asked ? request_key{from, asked->id, asked->text} : request_key{from, asked.error().id, asked.error().text};
}

// --- what the recorded daemon answered without a model

bool without_model(const read_frame& reply) {
  const auto is = [&](const std::string& path, std::string_view value) {
    const auto found = reply.fields.find(path);
    return found != reply.fields.end() && found->second == value;
  };
  if (reply.text) {
    const auto line = reply.fields.find("line 0");
    if (line != reply.fields.end() && line->second.starts_with("ERR not_loaded ")) return true;
    return is("line 0/state", "loading") || is("line 0/state", "stopping");
  }
  if (reply.type == "error") return is("code", "\"not_loaded\"");
  return reply.type == "status" && (is("state", "\"loading\"") || is("state", "\"stopping\""));
}

// The numbers of the requests that were answered so. Only a look ahead can tell, since such a request must not be fed.
result<std::set<std::uint64_t>> unserved_requests(const std::filesystem::path& journal) {
  auto reader = bus::journal_reader::open(journal);
  if (!reader) return fail(reader.error());
  std::set<std::uint64_t> unserved;
  std::map<request_key, std::deque<std::uint64_t>> open;
  for (;;) {
    const auto record = reader->next();
    if (!record || !*record) break;  // an error is told by those who read again
    if (std::holds_alternative<bus::journal_header>(**record)) open.clear();
    const auto* message = std::get_if<bus::journal_message>(&**record);
    if (message == nullptr) continue;
    if (message->direction == bus::journal_direction::in) {
      open[key_of_request(message->client, message->frame)].push_back(reader->records_read());
      continue;
    }
    const auto reply = read_reply_frame(message->frame);
    if (!reply || !reply->last) continue;
    const auto asked = open.find({message->client, reply->id, reply->text});
    if (asked == open.end()) continue;
    if (without_model(*reply)) unserved.insert(asked->second.front());
    asked->second.pop_front();
    if (asked->second.empty()) open.erase(asked);
  }
  return unserved;
}

// --- one run

// What has come, and is due, for one key.
struct stream {
  std::deque<read_frame> replayed;  // not yet compared
  std::int64_t open = 0;            // requests fed, less last replies recorded
  bool cancelled = false;           // by the recorded client
};

class player {
 public:
  player(replay_report& report, const std::set<std::uint64_t>& unserved) : report_(report), unserved_(unserved) {}

  result<void> begin_run(const bus::journal_header& header, const target_factory& target_for) {
    end_run();
    ++report_.runs;
    const auto made = header.about.find(made_in_virtual_time.first);
    auto target = target_for(header, [this](const bus::client_id& to, bus::bytes_view frame) { collect(to, frame); });
    if (!target) return fail(target.error());
    target_ = std::move(*target);
    exact_ = target_->repeats_exactly() && made != header.about.end() && made->second == made_in_virtual_time.second;
    return {};
  }

  result<void> take(std::uint64_t record, const bus::journal_message& message) {
    record_ = record;
    target_->move_to(message.stamp.at);
    if (message.direction == bus::journal_direction::out) {
      compare(message);
      return {};
    }
    if (unserved_.contains(record)) {
      ++report_.passed_over;
      return {};
    }
    ++report_.requests;
    const auto key = key_of_request(message.client, message.frame);
    ++streams_[key].open;
    gone_.erase(message.client);
    note_cancel(message);
    return target_->take(message.client, message.frame);
  }

  void take(std::uint64_t record, const bus::journal_gone& left) {
    record_ = record;
    target_->move_to(left.stamp.at);
    target_->client_left(left.client);
    if (exact_) {
      for (auto& [key, replies] : streams_) {
        if (key.client == left.client) replies.open = 0;
      }
      return;
    }
    gone_.insert(left.client);
    std::erase_if(streams_, [&](const auto& each) { return each.first.client == left.client; });
  }

  void take(const bus::journal_lost& lost) { report_.lost += lost.count; }

  // The journal has ended, or the run. A recording that breaks off has requests whose replies it does not know; they are no difference.
  void end_run() {
    if (!target_) return;
    const bool all_answered = std::all_of(streams_.begin(), streams_.end(), [](const auto& each) { return each.second.open <= 0; });
    if (all_answered && exact_) {
      while (target_->run_once()) {
      }
    }
    for (const auto& [key, replies] : streams_) {
      if (replies.open > 0 || report_.lost > 0) continue;
      for (const read_frame& each : replies.replayed) differ(key, "reply", "none", each.type);
    }
    streams_.clear();
    gone_.clear();
    target_.reset();
    stopped_ = false;
  }

 private:
  void collect(const bus::client_id& to, bus::bytes_view frame) {
    if (gone_.contains(to)) return;
    auto reply = read_reply_frame(frame);
    if (!reply) return differ({to, {}, false}, "frame", "none", reply.error().text);
    streams_[{to, reply->id, reply->text}].replayed.push_back(std::move(*reply));
  }

  void note_cancel(const bus::journal_message& message) {
    const auto asked = bus::decode_request(message.frame);
    if (!asked) return;
    if (const auto* cancel = std::get_if<bus::cancel>(&asked->command)) streams_[{message.client, cancel->target, false}].cancelled = true;
  }

  void compare(const bus::journal_message& message) {
    const auto recorded = read_reply_frame(message.frame);
    if (!recorded) return differ({message.client, {}, false}, "frame", recorded.error().text, "none");
    const request_key key{message.client, recorded->id, recorded->text};
    if (without_model(*recorded)) return;
    if (gone_.contains(message.client)) return;  // sent while the client was leaving
    stream& replies = streams_[key];
    if (recorded->last) --replies.open;
    stop_if_recorded(*recorded);
    // Where an answer was cut depends on the time that the cancel took to arrive, and a stop has no record: only how it ended counts.
    const bool cut = stopped_ || (replies.cancelled && !exact_);
    if (cut && !recorded->last) return;
    while (replies.replayed.empty() || (cut && !replies.replayed.front().last)) {
      if (!replies.replayed.empty()) replies.replayed.pop_front();
      else if (!target_->run_once()) return differ(key, "reply", recorded->type, "none");
    }
    ++report_.replies;
    compare(key, *recorded, replies.replayed.front(), replies.cancelled && recorded->last);
    replies.replayed.pop_front();
    if (replies.open <= 0 && replies.replayed.empty()) streams_.erase(key);
  }

  // Only a daemon that stops ends answers with this error.
  void stop_if_recorded(const read_frame& recorded) {
    const auto code = recorded.fields.find("code");
    if (recorded.type != "error" || code == recorded.fields.end() || code->second != "\"cancelled\"") return;
    if (!std::exchange(stopped_, true)) target_->stop();
  }

  void compare(const request_key& key, const read_frame& recorded, const read_frame& replayed, bool cancelled) {
    if (recorded.type != replayed.type) return differ(key, "type", recorded.type, replayed.type);
    std::set<std::string> paths;
    for (const auto& each : recorded.fields) paths.insert(each.first);
    for (const auto& each : replayed.fields) paths.insert(each.first);
    const auto value = [](const read_frame& of, const std::string& path) {
      const auto found = of.fields.find(path);
      return found == of.fields.end() ? std::string("none") : found->second;
    };
    for (const std::string& path : paths) {
      if (is_masked(recorded.type, field_name(path), exact_, cancelled)) continue;
      const std::string was = value(recorded, path);
      const std::string is = value(replayed, path);
      if (was != is) differ(key, path, was, is);
    }
  }

  void differ(const request_key& key, std::string field, std::string recorded, std::string replayed) {
    if (++report_.differences_all > limits::replay_differences_max) return;
    report_.differences.push_back({record_, key.client, key.id, std::move(field), std::move(recorded), std::move(replayed)});
  }

  replay_report& report_;
  const std::set<std::uint64_t>& unserved_;
  std::uint64_t record_ = 0;
  bool exact_ = false;
  bool stopped_ = false;
  std::set<bus::client_id> gone_;  // where moments do not repeat: what is still sent to them is not compared
  std::map<request_key, stream> streams_;
  std::unique_ptr<replay_target> target_;  // last, since its end may still send
};

}  // namespace

result<replay_report> replay(const std::filesystem::path& journal, const target_factory& target_for) {
  const auto unserved = unserved_requests(journal);
  if (!unserved) return fail(unserved.error());
  auto reader = bus::journal_reader::open(journal);
  if (!reader) return fail(reader.error());
  replay_report report;
  player plays(report, *unserved);
  for (;;) {
    auto record = reader->next();
    if (!record) {
      if (reader->records_read() == 0) return fail(record.error());
      report.torn = record.error();
      break;
    }
    if (!*record) break;
    if (const auto* header = std::get_if<bus::journal_header>(&**record)) {
      if (auto begun = plays.begin_run(*header, target_for); !begun) return fail(begun.error());
    } else if (const auto* message = std::get_if<bus::journal_message>(&**record)) {
      if (auto taken = plays.take(reader->records_read(), *message); !taken) return fail(taken.error());
    } else if (const auto* left = std::get_if<bus::journal_gone>(&**record)) {
      plays.take(reader->records_read(), *left);
    } else {
      plays.take(std::get<bus::journal_lost>(**record));
    }
  }
  if (report.runs == 0) return fail(errc::corrupt, journal.string() + ": no journal, it is empty; name the file of the setting `journal`");
  plays.end_run();
  return report;
}

}  // namespace ebb::tools
