// A model spread over two GPUs: its answer and speed beside one GPU's, each card lent and taken back and both at once, both decoding windows of
// several sessions, and another program on the second. Of the demo model, or of the one that EBB_TEST_MODEL names.
//
// All of it ends within EBB_TEST_SECONDS (100), if need be by leaving out what comes last, and saying so: the machine is lent by the minute.
#include "tests/gpu/engine/full_gpu.hpp"
#include "tests/gpu/engine/lending_cycle.hpp"
#include "tests/gpu/engine/nvidia_smi.hpp"
#include <cstdio>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;

namespace {

constexpr double everything_mib = 1e6;
constexpr std::uint32_t repeats = 3;  // of each speed
constexpr std::uint32_t cycles = 3;   // of lending, after one that warms up
constexpr std::uint32_t sessions_max = 8;
constexpr std::uint32_t n_decoded = 64;

class time_budget {
 public:
  time_budget() : seconds_(std::strtod(ebb::test::where("EBB_TEST_SECONDS", "100").c_str(), nullptr)) {}

  // Does it if that many seconds are left for it. Says how long it took.
  template <class Act>
  void spend(const std::string& what, double seconds, Act act) const {
    const double begun_s = spent_s();
    if (!has(what, seconds)) return;
    std::printf("\n-- %s\n", what.c_str());
    act();
    std::printf("   that took %.1f s\n", spent_s() - begun_s);
    std::fflush(stdout);
  }

  // Says so if not.
  bool has(const std::string& what, double seconds) const {
    const double left_s = seconds_ - spent_s();
    if (left_s >= seconds) return true;
    std::printf("left out: %s: %.0f s of %.0f are left, and it may take %.0f\n", what.c_str(), left_s, seconds_, seconds);
    return false;
  }

 private:
  double spent_s() const { return actors::milliseconds_between(began_, now()) / 1000; }

  time_point began_ = now();
  double seconds_;
};

settings on_gpus(std::vector<card_choice> cards, std::vector<std::uint32_t> first_layers = {}) {
  settings from = measured_on(std::move(cards));
  from.layers = std::move(first_layers);
  from.parallel = sessions_max;
  return from;
}

std::string layers_of(served& with) {
  std::string text;
  for (const bus::card_info& card : with.cards()) {
    text += (text.empty() ? "" : " + ") + std::to_string(card.layer_end - card.layer_begin);
  }
  return text + " layers";
}

// --- the answer, and the speed of one session

// The hash of a fixed answer.
std::string measure_one_session(served& with) {
  const bus::generate decode = conversation(with, n_decoded), prompt = conversation(with, 1, 512);
  const std::string shape = layers_of(with);
  std::string hash = with.answer<bus::done>(decode).hash;
  with.answer<bus::done>(prompt);
  std::vector<double> decodes, prompts;
  for (std::uint32_t repeat = 0; repeat < repeats; ++repeat) {
    const auto decoded = with.answer<bus::done>(decode);
    const auto read = with.answer<bus::done>(prompt);
    CHECK(decoded.hash == hash);
    decodes.push_back(decoded.tokens_per_s);
    prompts.push_back(static_cast<double>(read.prompt_tokens) * 1000 / read.prompt_ms);
  }
  print("decode, one session", shape, decodes, "tokens/s");
  print("prompt of 512 tokens", shape, prompts, "tokens/s");
  return hash;
}

void check_hash(const std::string& found, const std::string& expected, const std::string& where) {
  print_goal(found == expected, "the hash of an answer, " + where + ": that of one GPU");
  CHECK(found == expected);
}

// --- several sessions at the same time

bus::generate answer_number(const served& with, std::uint32_t number) { return conversation(with, n_decoded, 16, static_cast<token_id>(number)); }

std::vector<std::string> hashes_alone(served& with) {
  std::vector<std::string> hashes;
  for (std::uint32_t number = 0; number < sessions_max; ++number) hashes.push_back(with.answer<bus::done>(answer_number(with, number)).hash);
  return hashes;
}

// Tokens/s of all of them together, between the first token of the last to begin and the last token of the first to end.
double tokens_per_s(const std::vector<std::vector<time_point>>& of_answers) {
  time_point from = time_point::min(), to = time_point::max();
  for (const auto& times : of_answers) {
    from = std::max(from, times.front());
    to = std::min(to, times.back());
  }
  std::size_t count = 0;
  for (const auto& times : of_answers) {
    count += static_cast<std::size_t>(std::count_if(times.begin(), times.end(), [&](time_point each) { return each > from && each <= to; }));
  }
  const double ms = actors::milliseconds_between(from, to);
  return ms > 0 ? static_cast<double>(count) * 1000 / ms : 0;
}

double answer_together(served& with, std::uint32_t n_sessions, const std::vector<std::string>& expected) {
  std::vector<bus::request_id> open;
  for (std::uint32_t number = 0; number < n_sessions; ++number) {
    auto begun = with.talk().begin(answer_number(with, number));
    if (!begun) throw std::runtime_error(begun.error().text);
    open.push_back(*begun);
  }
  const auto all_answered = [&] { return std::all_of(open.begin(), open.end(), [&](const auto& id) { return with.talk().answered(id); }); };
  while (!all_answered()) {
    if (auto taken = with.talk().take(patience); !taken) throw std::runtime_error(taken.error().text);
  }
  std::vector<std::vector<time_point>> times;
  for (const bus::request_id& id : open) times.push_back(with.talk().token_times(id));
  for (std::uint32_t number = 0; number < n_sessions; ++number) CHECK(with.finished(open[number]).hash == expected[number]);
  return tokens_per_s(times);
}

using speeds = std::vector<std::pair<std::uint32_t, double>>;  // sessions, median tokens/s

speeds measure_sessions(const time_budget& budget, served& with, const std::vector<std::string>& expected) {
  speeds found;
  for (std::uint32_t n_sessions = 1; n_sessions <= sessions_max; n_sessions *= 2) {
    if (!budget.has(std::to_string(n_sessions) + " sessions together", 8)) break;
    std::vector<double> values;
    for (std::uint32_t repeat = 0; repeat < repeats; ++repeat) values.push_back(answer_together(with, n_sessions, expected));
    print("decode, sessions together: " + std::to_string(n_sessions), layers_of(with), values, "tokens/s");
    found.emplace_back(n_sessions, spread_of(values).median);
  }
  return found;
}

void compare(const speeds& one, const speeds& two) {
  for (std::size_t i = 0; i < std::min(one.size(), two.size()); ++i) {
    std::printf("%u sessions: two GPUs decode %.2f times what one does (%.1f and %.1f tokens/s)\n", one[i].first, two[i].second / one[i].second,
                two[i].second, one[i].second);
  }
}

// --- another program on the second GPU

struct guest {
  std::uint32_t mib;
  std::uint32_t lease_mib;
  bool gpu_is_full;  // so that it cannot have its memory without the lease
};

// 15,240 MiB where that is cached, as in the measurement that is compared with; of a small model half of its cache.
guest guest_on(const bus::card_report& card) {
  constexpr std::uint32_t wanted_mib = 15'240, context_mib = 700, room_mib = 64;  // for its context 305 to 613 were seen
  if (card.expert_cache_mib >= wanted_mib + context_mib + room_mib) return {wanted_mib, wanted_mib + context_mib, true};
  const auto half = static_cast<std::uint32_t>(card.expert_cache_mib / 2);
  return {std::max(1u, half), static_cast<std::uint32_t>(std::max(1.0, card.vram_free_mib - card.reserve_mib + half)), false};
}

void print_phase(const steady_talk& talk, const char* what, const phase& of) {
  std::printf("%-46s %10.1f ms   largest gap of two tokens %.1f ms, decode %.1f tokens/s\n", what, actors::milliseconds_between(of.began, of.ended),
              talk.gap_ms_max(of.began, of.ended), talk.tokens_per_s(of.began, of.ended));
}

void be_visited(served& with, std::uint32_t device, std::uint32_t gpu) {
  const bus::generate asked = conversation(with, 200);
  const std::string expected = with.answer<bus::done>(asked).hash;
  const bus::card_report full = with.card(device).report;
  const guest wanted = guest_on(full);
  std::optional<ballast> rest;
  if (wanted.gpu_is_full) rest.emplace(full.reserve_mib + 64, gpu);
  std::printf("%.0f MiB free on GPU %u beside a cache of %.0f MiB; a lease of %u MiB for a program of %u MiB\n", with.card(device).report.vram_free_mib,
              gpu, full.expert_cache_mib, wanted.lease_mib, wanted.mib);
  steady_talk talk(with, asked, expected);
  neighbour other(wanted.mib, gpu);
  const phase before = during([&] { talk.wait_for_tokens(40); });
  std::uint64_t lease = 0;
  const phase leasing = during([&] { lease = with.lend(device, wanted.lease_mib).leases.at(0).lease_id; });
  CHECK(with.card(device).report.expert_cache_mib < full.expert_cache_mib);
  const phase computing = during([&] {
    other.go();
    CHECK(talk.goes_on_until([&] { return other.has_memory() || other.ended(); }));
  });
  INFO(other.process().err());
  CHECK(other.has_memory());
  const phase beside = during([&] { talk.wait_for_tokens(40); });
  const phase ending = during([&] {
    other.process().close_input();
    CHECK(talk.goes_on_until([&] { return other.ended(); }));
  });
  CHECK(other.process().exit_code() == 0);
  const phase releasing = during([&] {
    with.release(lease);
    CHECK(talk.goes_on_until([&] { return with.card(device).report.expert_cache_mib == full.expert_cache_mib; }));
  });
  const phase after = during([&] { talk.wait_for_tokens(40); });
  const bool same = talk.finish();
  print_phase(talk, "before", before);
  print_phase(talk, "the lease is given", leasing);
  print_phase(talk, "it takes its memory, computes and compares", computing);
  print_phase(talk, "beside it", beside);
  print_phase(talk, "it compares again and ends", ending);
  print_phase(talk, "the lease ends and the cache is whole again", releasing);
  print_phase(talk, "after", after);
  print_goal(same, "a program on GPU " + std::to_string(gpu) + ": the hash of " + std::to_string(talk.n_answers()) + " answers is the undisturbed one's");
  CHECK(same);
}

}  // namespace

TEST_CASE("what a model on two GPUs does beside one on one", "[gpu][engine][benchmark][.two_gpus]") {
  const time_budget budget;
  const nvidia_smi_watch watch;
  std::string expected;
  std::vector<std::string> expected_of_sessions;
  speeds on_one, on_two;
  budget.spend("one GPU", 0, [&] {
    served with(on_gpus({gpu_card(0)}));
    print_head("one GPU");
    expected = measure_one_session(with);
    expected_of_sessions = hashes_alone(with);
    on_one = measure_sessions(budget, with, expected_of_sessions);
  });
  budget.spend("two GPUs, layers by what is free", 25, [&] {
    served with(on_gpus({gpu_card(0), gpu_card(1)}));
    print_head("two GPUs, auto");
    check_hash(measure_one_session(with), expected, "two GPUs with layers by what is free");
    compare_with_nvidia_smi(with, "all resident");
    on_two = measure_sessions(budget, with, expected_of_sessions);
    compare(on_one, on_two);
    const auto lend = [&](const std::vector<std::uint32_t>& devices, const std::string& what) {
      budget.spend("lending: " + what, 8, [&] { measure_lending(with, devices, everything_mib, cycles, what); });
    };
    lend({1}, "card 1 to its floor");
    lend({0}, "card 0 to its floor");
    lend({0, 1}, "both cards to their floors at once");
  });
  watch.print("one GPU, then two of equal parts");
  budget.spend("two GPUs, the first with two layers", 20, [&] {
    served with(on_gpus({gpu_card(0), gpu_card(1)}, {0, 2}));
    print_head("two GPUs, explicit");
    check_hash(measure_one_session(with), expected, "two GPUs with explicit layers");
    budget.spend("a program on GPU 1", 12, [&] { be_visited(with, 1, 1); });
    budget.spend("lending: nearly all of the model on card 1", 8,
                 [&] { measure_lending(with, {1}, everything_mib, cycles, "card 1 of nearly all layers to its floor"); });
  });
  watch.print("all of this");
}
