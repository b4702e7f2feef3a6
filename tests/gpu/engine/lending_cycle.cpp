#include "tests/gpu/engine/lending_cycle.hpp"

namespace ebb::tools::test {
namespace {

using reserves = std::vector<std::optional<std::uint32_t>>;  // [devices]; none: that of the start

// The commands for all these cards are under way together.
std::vector<bus::card_report> resize(served& with, const std::vector<std::uint32_t>& devices, const reserves& wanted) {
  std::vector<bus::request_id> begun;
  for (std::size_t i = 0; i < devices.size(); ++i) begun.push_back(with.begin_vram(wanted[i], devices[i]));
  std::vector<bus::card_report> reports;
  for (const bus::request_id& id : begun) reports.push_back(with.vram_finished(id));
  return reports;
}

double sum_mib(const std::vector<bus::card_report>& reports) {
  double sum = 0;
  for (const bus::card_report& each : reports) sum += each.expert_cache_mib;
  return sum;
}

double slowest_ms(const std::vector<bus::card_report>& reports) {
  double most = 0;
  for (const bus::card_report& each : reports) most = std::max(most, each.took_ms);
  return most;
}

std::vector<bus::card_report> reports_of(served& with, const std::vector<std::uint32_t>& devices) {
  const auto cards = with.cards();
  std::vector<bus::card_report> reports;
  for (const std::uint32_t device : devices) reports.push_back(cards.at(device).report);
  return reports;
}

}  // namespace

cycle lend_and_take_back(served& with, steady_talk& talk, const std::vector<std::uint32_t>& devices, double wanted_mib) {
  cycle found;
  const auto full = reports_of(with, devices);
  found.before = during([&] { talk.wait_for_tokens(30); });
  reserves to_lend;
  for (const bus::card_report& now : reports_of(with, devices)) to_lend.push_back(reserve_for(now, std::max(0.0, now.expert_cache_mib - wanted_mib)));
  found.going = during([&] {
    const auto lent = resize(with, devices, to_lend);
    found.moved_mib = sum_mib(full) - sum_mib(lent);
    found.lent_ms = slowest_ms(lent);
  });
  found.small = during([&] { talk.wait_for_tokens(16); });
  found.coming = during([&] {
    const auto back = resize(with, devices, reserves(devices.size()));
    found.back_ms = slowest_ms(back);
    CHECK(sum_mib(back) == sum_mib(full));
  });
  found.after = during([&] { talk.wait_for_tokens(30); });
  return found;
}

// Pre: the talk has ended.
void print_cycles(const steady_talk& talk, const std::vector<cycle>& cycles) {
  const std::string shape = gib_of(cycles.front().moved_mib);
  const auto each = [&](auto figure) {
    std::vector<double> values;
    for (const cycle& one : cycles) values.push_back(figure(one));
    return values;
  };
  const auto gap = [&](phase cycle::*of) {
    return each([&](const cycle& one) { return talk.gap_ms_max((one.*of).began, (one.*of).ended); });
  };
  const auto speed = [&](phase cycle::*of) {
    return each([&](const cycle& one) { return talk.tokens_per_s((one.*of).began, (one.*of).ended); });
  };
  const auto per_gib = [&](double cycle::*of) { return each([&](const cycle& one) { return one.*of / (one.moved_mib / 1024); }); };
  const bool large = cycles.front().moved_mib >= 1024;  // of less, a resize takes the time of its windows
  print("give back, in mid-answer", shape, per_gib(&cycle::lent_ms), "ms/GiB", large ? std::optional(goal{2}) : std::nullopt);
  print("take back with the refill, in mid-answer", shape, per_gib(&cycle::back_ms), "ms/GiB",
        large ? std::optional(goal{25}) : std::nullopt);
  print("give back, as the client waits", shape,
        each([](const cycle& one) { return actors::milliseconds_between(one.going.began, one.going.ended); }), "ms");
  print("take back, as the client waits", shape,
        each([](const cycle& one) { return actors::milliseconds_between(one.coming.began, one.coming.ended); }), "ms");
  print("largest gap of two tokens before", shape, gap(&cycle::before), "ms");
  print("largest gap of two tokens while it goes", shape, gap(&cycle::going), "ms", goal{50, &spread::max});
  print("largest gap of two tokens while small", shape, gap(&cycle::small), "ms");
  print("largest gap of two tokens while it comes back", shape, gap(&cycle::coming), "ms");
  print("largest gap of two tokens after", shape, gap(&cycle::after), "ms");
  print("decode before", shape, speed(&cycle::before), "tokens/s");
  print("decode while small", shape, speed(&cycle::small), "tokens/s");
  print("decode after", shape, speed(&cycle::after), "tokens/s");
}

std::string measure_lending(served& with, const std::vector<std::uint32_t>& devices, double wanted_mib, std::uint32_t repeats, const std::string& what) {
  print_head(what);
  const bus::generate asked = conversation(with, 400);
  const std::string expected = with.answer<bus::done>(asked).hash;
  steady_talk talk(with, asked, expected);
  talk.wait_for_tokens(8);
  lend_and_take_back(with, talk, devices, wanted_mib);  // warms up
  std::vector<cycle> cycles;
  for (std::uint32_t repeat = 0; repeat < repeats; ++repeat) cycles.push_back(lend_and_take_back(with, talk, devices, wanted_mib));
  const bool same = talk.finish();
  print_cycles(talk, cycles);
  print_goal(same, what + ": the hash of " + std::to_string(talk.n_answers()) + " answers is that of the undisturbed one");
  CHECK(same);
  return expected;
}

}  // namespace ebb::tools::test
