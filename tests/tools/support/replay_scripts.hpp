// tests/tools/support/replay_scripts.hpp: what happens in each journal of tests/replay/.
#pragma once
#include "tests/bus/support/pack.hpp"
#include "tests/tools/support/demo.hpp"
#include "tests/tools/support/recording.hpp"
#include <vector>

namespace ebb::tools::test {

struct replay_script {
  std::string name;  // of the file, without ".journal"
  std::string settings;
  void (*play)(recording&);
};

namespace scripts {

using namespace std::chrono_literals;

// Drawn by a seed, so that a replay also repeats what is drawn.
inline bus::generate drawn(std::uint32_t n_tokens, std::uint64_t seed) {
  bus::generate asked = greedy(n_tokens);
  asked.prompt = "My fellow citizens";
  asked.temperature = 0.9f;
  asked.top_k = 40;
  asked.seed = seed;
  return asked;
}

inline bus::lease acquire(std::uint32_t mib, std::uint32_t ttl_s, const std::string& owner = "test") {
  bus::lease asked;
  asked.action = "acquire";
  asked.owner = owner;
  asked.device = 0;
  asked.mib = mib;
  asked.ttl_s = ttl_s;
  return asked;
}

inline bus::lease about(const std::string& action, std::uint64_t lease_id) {
  bus::lease asked;
  asked.action = action;
  asked.lease_id = lease_id;
  if (action == "renew") asked.ttl_s = 30;
  return asked;
}

inline bus::lease list() {
  bus::lease asked;
  asked.action = "list";
  return asked;
}

inline void two_clients(recording& to) {
  to.send("ann", 1, greedy(24));
  to.run_for(3);
  to.send("ben", 1, drawn(20, 7));
  to.run_for(9);
  to.send("ann", 2, bus::status{});
  to.send("ben", 2, drawn(12, 8));
  to.run_to_rest();
  to.pass(250ms);
  bus::generate whole = greedy(10);
  whole.stream = false;
  to.send("ben", 3, whole);
  to.run_to_rest();
  to.send("ann", 3, bus::cards{});
  to.send("ann", 4, bus::status{});
  to.run_to_rest();
}

inline void leases_expire(recording& to) {
  to.send("ann", 1, acquire(14, 2));
  to.run_to_rest();
  to.send("ann", 2, list());
  bus::lease waiting = acquire(14, 3, "waits");
  waiting.wait_s = 10;
  to.send("ben", 1, waiting);
  to.run_to_rest();
  to.pass(1500ms);
  to.send("ann", 3, bus::cards{});
  to.send("ann", 4, greedy(30));
  to.run_for(10);
  to.pass(1000ms);  // ann's ends in the middle of her answer, and ben's begins
  to.run_to_rest();
  to.send("ben", 2, list());
  to.pass(5s);
  to.send("ben", 3, list());
  to.send("ben", 4, bus::cards{});
  to.run_to_rest();
}

inline void resize_in_mid_answer(recording& to) {
  to.send("reader", 1, greedy(36));
  to.run_for(8);
  to.send("neighbour", 1, bus::vram{100000, std::nullopt});
  to.run_for(6);
  to.send("neighbour", 2, bus::vram{11, 0});
  to.run_for(6);
  to.send("neighbour", 3, bus::vram{std::nullopt, std::nullopt});
  to.run_for(6);
  to.send("neighbour", 4, bus::cards{});
  to.run_to_rest();
  to.send("reader", 2, bus::status{});
  to.run_to_rest();
}

inline void text_commands(recording& to) {
  const auto ask = [&](const std::string& line) {
    to.send("old", line);
    to.run_to_rest();
  };
  for (const char* line : {"VRAM 5", "VRAM 3 0\n", "VRAM - 0", "CARDS", "VRAM", "STATUS"}) ask(line);
  for (const char* line : {"VRAM -1", "VRAM 1 2 3", "VRAM 1 9", "VRAMM 1", "vram", "STATUS please"}) ask(line);
  to.send("reader", 1, greedy(20));
  to.run_for(5);
  to.send("old", "VRAM 20");
  to.run_for(5);
  to.send("old", "VRAM");
  to.run_to_rest();
  ask("CARDS");
}

// One place: who comes second waits.
inline void cancels(recording& to) {
  to.send("ann", 1, greedy(40));
  to.run_for(10);
  to.send("ann", 2, bus::cancel{{std::uint64_t{1}}});
  to.run_to_rest();
  to.send("ann", 3, bus::cancel{{std::uint64_t{1}}});
  to.send("ann", 4, drawn(30, 3));
  to.send("ann", 5, bus::cancel{{std::uint64_t{4}}});  // before it has begun
  to.run_to_rest();
  to.send("ann", 6, greedy(30));
  to.run_for(4);
  to.send("ben", 1, drawn(30, 4));
  to.run_for(4);
  to.send("ben", 2, bus::cancel{{std::uint64_t{1}}});  // while it waits
  to.send("ben", 3, bus::cancel{{std::uint64_t{6}}});  // another client's
  to.send("ben", 4, drawn(8, 5));
  to.run_to_rest();
  to.send("ben", 5, bus::status{});
  to.run_to_rest();
}

inline void client_leaves(recording& to) {
  to.send("ann", 1, greedy(40));
  to.send("ben", 1, drawn(30, 11));
  to.run_for(12);
  to.leave("ann");
  to.run_for(4);
  to.send("ann", 1, drawn(10, 12));  // another connection that was given the same id
  to.run_to_rest();
  to.send("cat", 1, acquire(4, 60));
  to.leave("cat");  // before the answer: the lease ends
  to.run_to_rest();
  to.send("ben", 2, list());
  to.send("ben", 3, bus::status{});
  to.run_to_rest();
}

inline void bad_messages(recording& to) {
  namespace pack = bus::test::pack;
  using field = std::pair<std::string, std::string>;
  const field v{"v", pack::whole(1)};
  const field id{"id", pack::whole(7)};
  const auto cmd = [](const std::string& name) { return field{"cmd", pack::text(name)}; };
  const std::string status = pack::map({v, id, cmd("status")});
  const std::vector<std::string> all{
      "",
      std::string(1, '\0'),
      "\xc1",
      pack::list({pack::whole(1)}),
      status.substr(0, status.size() - 1),
      status + "x",
      pack::map({id, cmd("status")}),
      pack::map({{"v", pack::whole(2)}, id, cmd("status")}),
      pack::map({v, cmd("status")}),
      pack::map({v, {"id", pack::real(1.5)}, cmd("status")}),
      pack::map({v, id}),
      pack::map({v, id, cmd("statuss")}),
      pack::map({v, id, cmd("status"), {"colour", pack::text("red")}}),
      pack::map({v, id, cmd("vram")}),
      pack::map({v, id, cmd("vram"), {"reserve_mib", pack::real(-1)}}),
      pack::map({v, id, cmd("vram"), {"reserve_mib", pack::text("much")}}),
      pack::map({v, id, cmd("generate")}),
      pack::map({v, id, cmd("generate"), {"prompt", pack::text("a\xff")}}),
      pack::map({v, id, cmd("generate"), {"prompt", pack::text("a")}, {"top_p", pack::real(1.5)}}),
      pack::map({v, id, cmd("generate"), {"ids", pack::list({pack::whole(99999999)})}}),
      pack::map({v, id, cmd("lease"), {"action", pack::text("borrow")}}),
      pack::map({v, {"id", pack::whole(8)}, cmd("vram"), {"reserve_mib", pack::whole(1)}, {"device", pack::whole(9)}}),
      pack::map({v, {"id", pack::whole(9)}, cmd("generate"), {"ids", pack::list({pack::whole(99999999)})}}),
  };
  for (const std::string& frame : all) {
    to.send("sloppy", frame);
    to.run_to_rest();
  }
  to.send("sloppy", 10, bus::cards{});
  to.run_to_rest();
}

inline void short_of(recording& to) {
  to.send("ann", 1, acquire(1000, 60));
  to.run_to_rest();
  bus::lease rather_some = acquire(1000, 60);
  rather_some.min_mib = 5;
  to.send("ann", 2, rather_some);
  to.run_to_rest();
  to.send("ben", 1, acquire(1, 60));
  to.run_to_rest();
  to.send("ann", 3, about("renew", 1));
  to.send("ann", 4, about("release", 1));
  to.send("ann", 5, about("release", 1));
  to.send("ann", 6, about("renew", 77));
  to.run_to_rest();
  to.send("ben", 2, bus::vram{10, 0});
  to.send("ben", 3, bus::plan{20, 0});
  rather_some.mib = 20;
  to.send("ben", 4, rather_some);
  to.run_to_rest();
  to.send("ben", 5, list());
  to.send("ben", 6, bus::plan{std::nullopt, std::nullopt});
  to.send("ben", 7, bus::cards{});
  to.run_to_rest();
}

inline void repeated_ids(recording& to) {
  to.send("ann", 1, greedy(16));
  to.run_for(4);
  to.send("ann", 1, greedy(16));  // under way: it is answered once
  to.run_to_rest();
  to.send("ann", 1, greedy(16));  // answered: the same last reply again
  to.send("ann", bus::request_id{std::string("1")}, drawn(6, 2));  // text is another id
  to.run_to_rest();
  to.send("ben", 1, bus::vram{8, 0});
  to.run_to_rest();
  to.send("ben", 2, bus::vram{std::nullopt, std::nullopt});
  to.run_to_rest();
  to.send("ben", 1, bus::vram{8, 0});  // changes nothing
  to.send("ben", 3, acquire(2, 60));
  to.run_to_rest();
  to.send("ben", 3, acquire(2, 60));
  to.send("ben", 4, list());
  to.send("ben", 5, bus::cards{});
  to.run_to_rest();
}

// Two cards, so that a map of the experts has two parts.
inline void conversations(recording& to) {
  bus::generate chat = greedy(16);
  chat.prompt.clear();
  chat.messages = {{"system", "Speak of the beginning.", ""}, {"user", "Who made the heaven? <|im_end|>", "Ann"}};
  to.send("ann", 1, chat);
  to.run_to_rest();
  bus::generate likely = drawn(12, 9);
  likely.logprobs = 3;
  to.send("ann", 2, likely);
  to.run_for(5);
  to.send("ben", 1, bus::tokenize{"user: Who made the heaven? <|im_end|>", true});
  to.send("ben", 2, bus::tokenize{"user: Who made the heaven? <|im_end|>", false});
  to.send("ben", 3, bus::detokenize{{72, 101, 108, 108}});
  to.send("ben", 4, bus::detokenize{{999'999}});
  to.send("ben", 5, bus::vram{8, 1});
  to.run_to_rest();
  to.send("ben", 6, bus::experts{});
  to.send("ben", 7, bus::status{});
  chat.messages.push_back({"assistant", "", ""});
  to.send("ann", 3, chat);
  to.run_to_rest();
}

// Two cards. A daemon from its load to its end.
inline void load_and_stop(recording& to) {
  const error not_loaded{errc::not_loaded, "the model is being loaded, or the daemon is stopping; try again in a moment"};
  bus::status_report loading;
  loading.state = "loading";
  to.send_unserved("ann", {{std::uint64_t{1}}, false, greedy(8)}, {{std::uint64_t{1}}, not_loaded});
  to.send_unserved("ann", {{std::uint64_t{2}}, false, bus::status{}}, {{std::uint64_t{2}}, loading});
  to.send("ann", 3, bus::vram{9, 1});  // kept until the model is there
  to.run_to_rest();
  to.send("ann", 4, bus::vram{5, std::nullopt});
  to.send("ben", 1, bus::vram{7, std::nullopt});
  to.send("ann", 5, bus::vram{3, 0});
  to.send("ben", 2, bus::vram{std::nullopt, 1});
  to.send("ben", 3, bus::vram{1, 2});
  to.send("ben", 4, bus::subscribe{});
  to.run_to_rest();
  to.send("ann", 6, bus::cards{});
  to.send("ann", 7, greedy(40));
  to.send("ben", 5, drawn(40, 6));
  to.run_for(21);
  to.send("ben", 6, bus::vram{100000, 0});
  to.run_for(12);
  to.stop();
}

}  // namespace scripts

inline const std::vector<replay_script>& replay_scripts() {
  static const std::vector<replay_script> all{
      {"two_clients", "vram_segment_mib = 1\n", scripts::two_clients},
      {"leases_expire", "vram_segment_mib = 1\n", scripts::leases_expire},
      {"resize_in_mid_answer", "vram_segment_mib = 1\n", scripts::resize_in_mid_answer},
      {"text_commands", "vram_segment_mib = 1\n", scripts::text_commands},
      {"cancels", "vram_segment_mib = 1\nparallel = 1\n", scripts::cancels},
      {"client_leaves", "vram_segment_mib = 1\n", scripts::client_leaves},
      {"bad_messages", "vram_segment_mib = 1\n", scripts::bad_messages},
      {"short_of", "vram_segment_mib = 1\nhost_card_mib = 30\n", scripts::short_of},
      {"repeated_ids", "vram_segment_mib = 1\n", scripts::repeated_ids},
      {"conversations", "vram_segment_mib = 1\ncards = [\"host\", \"host\"]\n", scripts::conversations},
      {"load_and_stop", "vram_segment_mib = 1\ncards = [\"host\", \"host\"]\n", scripts::load_and_stop},
  };
  return all;
}

}  // namespace ebb::tools::test
