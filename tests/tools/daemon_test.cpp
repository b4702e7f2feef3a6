// The daemon behind its real socket, with clients on the other side.
#include "tools/daemon.hpp"
#include "bus/client_socket.hpp"
#include "bus/codec.hpp"
#include "bus/journal_reader.hpp"
#include "tests/bus/support/pack.hpp"
#include "tests/bus/support/temporary_folder.hpp"
#include "tests/tools/support/demo.hpp"
#include <fstream>
#include <zmq.hpp>

using namespace ebb;
using namespace ebb::tools;
using namespace ebb::tools::test;
namespace pack = ebb::bus::test::pack;

namespace {

// A daemon with the demo model on two cards, in a folder of its own.
class served {
 public:
  served() {
    auto opened = tools::daemon::start(options());
    if (!opened) throw std::runtime_error(opened.error().text);
    daemon_ = std::move(*opened);
  }

  std::string endpoint() const { return "ipc://" + (folder_ / "commands").string(); }
  engine_options options() const {
    engine_options chosen = demo_on(2);
    chosen.from.bus.listen = {endpoint()};
    chosen.from.state_dir = (folder_ / "state").string();
    return chosen;
  }
  std::unique_ptr<connection> client() const {
    auto connected = connect_to_daemon(endpoint());
    if (!connected) throw std::runtime_error(connected.error().text);
    return std::move(*connected);
  }
  std::filesystem::path socket_file() const { return folder_ / "commands"; }
  void stop() { daemon_.reset(); }

 private:
  bus::test::temporary_folder folder_;
  std::unique_ptr<tools::daemon> daemon_;
};

// A DEALER that knows nothing of Ebb: it sends bytes and shows bytes.
class raw_client {
 public:
  explicit raw_client(const std::string& endpoint) {
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(patience).count()));
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(endpoint);
  }

  std::string ask(const std::string& frame) {
    socket_.send(zmq::buffer(frame), zmq::send_flags::none);
    zmq::message_t answer;
    return socket_.recv(answer) ? answer.to_string() : "no answer";
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
};

// Sends the request and takes its first tokens; the answer goes on behind.
bus::request_id begin_answer(connection& client, const bus::generate& asked, int n_tokens) {
  const bus::request_id id = fresh_id();
  if (auto sent = client.send({id, false, asked}); !sent) throw std::runtime_error(sent.error().text);
  for (int taken = 0; taken < n_tokens; ++taken) {
    const auto reply = client.receive(patience);
    if (!reply || reply->last()) throw std::runtime_error("the answer ended early");
  }
  return id;
}

// The last reply to a request; what comes before it, and what belongs to others, is dropped.
bus::reply last_reply(connection& client, const bus::request_id& id) {
  for (;;) {
    auto reply = client.receive(patience);
    if (!reply) throw std::runtime_error(reply.error().text);
    if (reply->id == id && reply->last()) return std::move(*reply);
  }
}

std::uint32_t sessions_of(connection& client) { return answer_of<bus::status_report>(client, bus::status{}).sessions; }

}  // namespace

TEST_CASE("a client of the socket gets its answer as a stream, and the same one each time") {
  const served daemon;
  const auto client = daemon.client();
  std::vector<std::string> texts;
  std::vector<std::string> hashes;
  for (int turn = 0; turn < 2; ++turn) {
    const bus::request_id id = fresh_id();
    REQUIRE(client->send({id, false, greedy(60)}));
    std::string text;
    std::uint64_t n_tokens = 0;
    for (;;) {
      const auto reply = client->receive(patience);
      REQUIRE(reply);
      REQUIRE(reply->id == id);
      if (const auto* last = std::get_if<bus::done>(&reply->body)) {
        CHECK(last->generated_tokens == 60);
        hashes.push_back(last->hash);
        break;
      }
      const auto& token = std::get<bus::token>(reply->body);
      CHECK(token.index == n_tokens++);
      text += token.text;
    }
    CHECK(n_tokens == 60);
    texts.push_back(text);
  }
  CHECK(texts[0] == texts[1]);
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[0].size() == 32);
}

TEST_CASE("memory is given back and taken again in the middle of an answer, and not one bit of it changes") {
  const served daemon;
  const auto reader = daemon.client();
  const auto neighbour = daemon.client();
  const auto undisturbed = answer_of<bus::done>(*reader, greedy(300));

  const bus::request_id id = begin_answer(*reader, greedy(300), 20);
  const auto shrunk = answer_of<bus::vram_report>(*neighbour, bus::vram{11, 0}).cards;
  const auto everywhere = answer_of<bus::vram_report>(*neighbour, bus::vram{100000, std::nullopt}).cards;
  CHECK(sessions_of(*neighbour) == 1);
  const auto regrown = answer_of<bus::vram_report>(*neighbour, bus::vram{std::nullopt, std::nullopt}).cards;
  const auto disturbed = std::get<bus::done>(last_reply(*reader, id).body);

  REQUIRE(shrunk.size() == 1);
  CHECK(shrunk[0].device == 0);
  CHECK(shrunk[0].reserve_mib == 11);
  CHECK(shrunk[0].vram_free_mib >= 11);
  CHECK(shrunk[0].short_mib == 0);
  CHECK(shrunk[0].expert_slots < shrunk[0].expert_slots_full);
  REQUIRE(everywhere.size() == 2);
  for (const auto& card : everywhere) {
    CHECK(card.expert_slots == 0);
    CHECK(card.expert_cache_mib == 0);
    CHECK(card.short_mib == Approx(100000 - card.expert_cache_full_mib));
  }
  REQUIRE(regrown.size() == 2);
  for (const auto& card : regrown) {
    CHECK(card.reserve_mib == 0);
    CHECK(card.expert_slots == card.expert_slots_full);
    CHECK(card.expert_cache_mib == card.expert_cache_full_mib);
  }
  CHECK(undisturbed.hit_rate == 1);
  CHECK(disturbed.hit_rate < 1);
  CHECK(disturbed.hash == undisturbed.hash);
  CHECK(disturbed.generated_tokens == 300);
}

TEST_CASE("a text command is answered in text, one line a card, and an error is one line") {
  const served daemon;
  raw_client client(daemon.endpoint());
  const std::string both = client.ask("VRAM 5");
  CHECK_THAT(both, Catch::StartsWith("VRAM device=0 reserve_mib=5 expert_slots=") && Catch::Contains("\nVRAM device=1 reserve_mib=5 ") &&
                       Catch::EndsWith("\nVRAM-DONE"));
  CHECK(std::count(both.begin(), both.end(), '\n') == 2);
  CHECK_THAT(client.ask("VRAM 3 1\n"), Catch::StartsWith("VRAM device=1 reserve_mib=3 ") && Catch::EndsWith("\nVRAM-DONE"));
  CHECK_THAT(client.ask("VRAM - 1"), Catch::StartsWith("VRAM device=1 reserve_mib=0 expert_slots=96 expert_slots_full=96 "));
  CHECK_THAT(client.ask("VRAM"), Catch::StartsWith("VRAM device=0 reserve_mib=0 expert_slots=96 expert_slots_full=96 "));
  CHECK_THAT(client.ask("STATUS"), Catch::StartsWith("STATUS version=") && Catch::Contains(" state=ready ") && Catch::EndsWith("\nSTATUS-DONE"));
  CHECK_THAT(client.ask("CARDS"), Catch::StartsWith("CARDS device=0 ") && Catch::Contains("kind=host") && Catch::EndsWith("\nCARDS-DONE"));
  CHECK_THAT(client.ask("VRAM -1"), Catch::StartsWith("ERR bad_value "));
  CHECK_THAT(client.ask("VRAM 1 2 3"), Catch::StartsWith("ERR bad_value "));
  CHECK_THAT(client.ask("VRAM 1 2"), Catch::StartsWith("ERR unknown_device "));
  CHECK_THAT(client.ask("VRAMM 1"), Catch::StartsWith("ERR unknown_command "));
}

TEST_CASE("every kind of broken frame gets an error with a name, and its connection lives on") {
  using fields = std::pair<std::string, std::string>;
  const fields v{"v", pack::whole(1)};
  const fields id{"id", pack::whole(7)};
  const auto cmd = [](const std::string& name) { return fields{"cmd", pack::text(name)}; };
  const auto reserve = [](const std::string& packed) { return fields{"reserve_mib", packed}; };
  const std::string status = pack::map({v, id, cmd("status")});
  struct broken {
    std::string frame;
    errc code;
    bool keeps_id;
  };
  const std::vector<broken> all{
      {"", errc::malformed, false},
      {std::string(1, '\0'), errc::malformed, false},
      {"\xc1", errc::malformed, false},
      {pack::list({pack::whole(1)}), errc::malformed, false},
      {status.substr(0, status.size() - 1), errc::malformed, false},
      {status + "x", errc::malformed, true},
      {pack::map({id, cmd("status")}), errc::missing_key, true},
      {pack::map({{"v", pack::whole(2)}, id, cmd("status")}), errc::bad_value, true},
      {pack::map({v, cmd("status")}), errc::missing_key, false},
      {pack::map({v, {"id", pack::real(1.5)}, cmd("status")}), errc::bad_value, false},
      {pack::map({v, id}), errc::missing_key, true},
      {pack::map({v, id, cmd("statuss")}), errc::unknown_command, true},
      {pack::map({v, id, cmd("status"), {"verbose", pack::boolean(true)}}), errc::unknown_key, true},
      {pack::map({v, id, cmd("status"), cmd("status")}), errc::malformed, true},
      {pack::map({v, id, cmd("vram")}), errc::missing_key, true},
      {pack::map({v, id, cmd("vram"), reserve(pack::signed_whole(-1))}), errc::bad_value, true},
      {pack::map({v, id, cmd("vram"), reserve(pack::real(1.5))}), errc::bad_value, true},
      {pack::map({v, id, cmd("vram"), reserve(pack::boolean(true))}), errc::bad_value, true},
      {pack::map({v, id, cmd("vram"), reserve(pack::text("5"))}), errc::bad_value, true},
      {pack::map({v, id, cmd("vram"), reserve(pack::whole(5)), {"device", pack::nil()}}), errc::bad_value, true},
      {pack::map({v, id, cmd("generate")}), errc::missing_key, true},
      {pack::map({v, id, cmd("generate"), {"prompt", pack::text("a")}, {"max_tokens", pack::whole(0)}}), errc::bad_value, true},
  };
  const served daemon;
  raw_client client(daemon.endpoint());
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("frame " << i);
    const std::string answer = client.ask(all[i].frame);
    const auto reply = bus::decode_reply(bus::as_bytes(answer));
    REQUIRE(reply);
    const auto* why = std::get_if<error>(&reply->body);
    REQUIRE(why != nullptr);
    INFO(why->text);
    CHECK(to_string(why->code) == to_string(all[i].code));
    CHECK_FALSE(why->text.empty());
    CHECK(reply->id == (all[i].keeps_id ? bus::request_id{std::uint64_t{7}} : bus::request_id{}));
  }
  const auto alive = bus::decode_reply(bus::as_bytes(client.ask(status)));
  REQUIRE(alive);
  CHECK(std::holds_alternative<bus::status_report>(alive->body));
}

TEST_CASE("requests that are well formed and cannot be done are refused by name, and change nothing") {
  const served daemon;
  const auto client = daemon.client();
  CHECK(code_of(*client, bus::vram{5, 2}) == errc::unknown_device);
  CHECK(code_of(*client, bus::cancel{{std::uint64_t{12345}}}) == errc::unknown_session);
  auto asked = greedy(1);
  asked.prompt.clear();
  asked.ids = {4096};
  CHECK(code_of(*client, asked) == errc::bad_value);
  asked.ids.assign(2048, 77);
  CHECK(code_of(*client, asked) == errc::too_large);
  const auto cards = answer_of<bus::cards_report>(*client, bus::cards{}).cards;
  for (const auto& card : cards) CHECK(card.report.expert_slots == card.report.expert_slots_full);
  CHECK(answer_of<bus::status_report>(*client, bus::status{}).tokens_generated == 0);
}

TEST_CASE("an answer that is cancelled ends with its own summary, and the tokens it had") {
  const served daemon;
  const auto client = daemon.client();
  const bus::request_id id = begin_answer(*client, greedy(2000), 10);
  const bus::request_id cancel_id = fresh_id();
  REQUIRE(client->send({cancel_id, false, bus::cancel{id}}));
  const auto last = std::get<bus::done>(last_reply(*client, id).body);
  CHECK(last.finish == "cancelled");
  CHECK(last.generated_tokens >= 10);
  CHECK(last.generated_tokens < 2000);
  CHECK(last.hash.size() == 32);
  CHECK(sessions_of(*client) == 0);
}

TEST_CASE("a request with an id that was answered is answered again and not done again") {
  const served daemon;
  const auto client = daemon.client();
  const bus::request_id id = fresh_id();
  REQUIRE(client->send({id, false, greedy(9)}));
  const auto first = std::get<bus::done>(last_reply(*client, id).body);
  REQUIRE(client->send({id, false, greedy(9)}));
  const auto again = client->receive(patience);
  REQUIRE(again);
  CHECK(again->id == id);
  CHECK(std::get<bus::done>(again->body).hash == first.hash);
  CHECK(answer_of<bus::status_report>(*client, bus::status{}).tokens_generated == 9);
}

TEST_CASE("a client that leaves in the middle of its answer frees its session") {
  const served daemon;
  const auto watcher = daemon.client();
  for (int turn = 0; turn < 5; ++turn) {  // more often than there are places
    auto leaver = daemon.client();
    begin_answer(*leaver, greedy(2000), 3);
    CHECK(sessions_of(*watcher) >= 1);
    leaver.reset();
  }
  CHECK(comes_true([&] { return sessions_of(*watcher) == 0; }));
  const auto now = answer_of<bus::status_report>(*watcher, bus::status{});
  CHECK(now.waiting == 0);
  CHECK(now.tokens_generated < 5 * 2000);
  CHECK(answer_of<bus::done>(*watcher, greedy(3)).generated_tokens == 3);
}

TEST_CASE("a second daemon at the same endpoint is refused, and the first one does not notice") {
  const served daemon;
  const auto second = tools::daemon::start(daemon.options());
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::refused);
  CHECK_THAT(second.error().text, Catch::Contains(daemon.endpoint().substr(std::string("ipc://").size())));
  const auto client = daemon.client();
  CHECK(answer_of<bus::done>(*client, greedy(3)).generated_tokens == 3);
}

TEST_CASE("a daemon that cannot start gives its endpoint free") {
  bus::test::temporary_folder folder;
  engine_options options = demo_on(1);
  options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  options.from.state_dir = (folder / "state").string();
  options.from.context = 1u << 20;
  const auto refused = tools::daemon::start(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_value);
  CHECK_FALSE(std::filesystem::exists(folder / "commands"));
  options.from.context = 0;
  CHECK(tools::daemon::start(options));
}

TEST_CASE("a daemon that stops answers what is open with cancelled, removes its socket and lets its clients know") {
  served daemon;
  const auto client = daemon.client();
  const bus::request_id id = begin_answer(*client, greedy(2000), 5);
  daemon.stop();
  const auto last = last_reply(*client, id);
  REQUIRE(std::holds_alternative<error>(last.body));
  CHECK(std::get<error>(last.body).code == errc::cancelled);
  CHECK_FALSE(std::filesystem::exists(daemon.socket_file()));
  const auto gone = client->receive(patience);
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == errc::refused);
}

TEST_CASE("while the model is being loaded the daemon says so, and tells those who want an answer to wait") {
  const bus::test::temporary_folder folder;
  const std::string endpoint = "ipc://" + (folder / "commands").string();
  auto options = demo_on(1);
  options.from.bus.listen = {endpoint};
  options.from.state_dir = (folder / "state").string();
  int n_asked = 0;
  options.progress = [&](double) {
    if (n_asked++ > 0) return;
    const auto client = connect_to_daemon(endpoint);
    REQUIRE(client);
    CHECK(answer_of<bus::status_report>(**client, bus::status{}).state == "loading");
    const auto refused = ask(**client, greedy(1), patience);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::not_loaded);
  };
  REQUIRE(tools::daemon::start(options));
  CHECK(n_asked > 0);
}

TEST_CASE("what is asked about memory while the model is being loaded is kept, and carried out and answered after the load") {
  const bus::test::temporary_folder folder;
  const std::string endpoint = "ipc://" + (folder / "commands").string();
  auto options = demo_on(2);
  options.from.bus.listen = {endpoint};
  options.from.state_dir = (folder / "state").string();
  std::unique_ptr<connection> patient, hasty;
  const auto send = [](connection& through, std::uint64_t id, bus::command what) { REQUIRE(through.send({{id}, false, std::move(what)})); };
  options.progress = [&](double) {
    if (patient) return;
    patient = *connect_to_daemon(endpoint);
    hasty = *connect_to_daemon(endpoint);
    send(*patient, 1, bus::vram{4, 0});
    bus::lease lent;
    lent.action = "acquire";
    lent.owner = "painter";
    lent.device = 1;
    lent.mib = 3;
    send(*patient, 2, lent);
    lent.mib = 5;
    send(*hasty, 1, lent);
    send(*hasty, 2, bus::vram{2, 1});
    answer_of<bus::status_report>(*hasty, bus::status{});  // so all of it has arrived
    hasty.reset();
  };
  const auto daemon = tools::daemon::start(options);
  REQUIRE(daemon);
  CHECK(std::get<bus::vram_report>(last_reply(*patient, {std::uint64_t{1}}).body).cards[0].reserve_mib == 4);
  CHECK(std::get<bus::lease_report>(last_reply(*patient, {std::uint64_t{2}}).body).leases[0].mib == 3);
  // Of the client that left, the reserve holds and the lease is not given.
  CHECK(comes_true([&] { return answer_of<bus::cards_report>(*patient, bus::cards{}).cards[1].report.reserve_mib == 2; }));
  bus::lease list;
  list.action = "list";
  CHECK(answer_of<bus::lease_report>(*patient, list).leases.size() == 1);
}

TEST_CASE("two daemons do not keep their state in one place") {
  const served daemon;
  auto options = daemon.options();
  const bus::test::temporary_folder elsewhere;
  options.from.bus.listen = {"ipc://" + (elsewhere / "commands").string()};
  const auto second = tools::daemon::start(options);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::busy);
  CHECK_THAT(second.error().text, Catch::Contains("state_dir"));
}

TEST_CASE("a state that is damaged is moved aside and named, and the daemon starts with the reserves of its settings") {
  const bus::test::temporary_folder folder;
  auto options = demo_on(1);
  options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  options.from.state_dir = (folder / "state").string();
  std::filesystem::create_directory(folder / "state");
  const auto file = folder / "state" / "ledger.msgpack";
  std::ofstream(file) << "rubbish";
  const auto daemon = tools::daemon::start(options);
  REQUIRE(daemon);
  REQUIRE((*daemon)->state_trouble());
  CHECK_THAT((*daemon)->state_trouble()->text, Catch::Contains(file.string()) && Catch::Contains(".damaged"));
  CHECK(std::filesystem::exists(file.string() + ".damaged"));
}

TEST_CASE("a kept state that cannot be read keeps the daemon from starting, by its path and what to do, and stays as it is") {
  const bus::test::temporary_folder folder;
  auto options = demo_on(1);
  options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  options.from.state_dir = (folder / "state").string();
  const auto file = folder / "state" / "ledger.msgpack";
  std::filesystem::create_directory(folder / "state");
  SECTION("a folder in its place") { std::filesystem::create_directory(file); }
  SECTION("a link that leads round in a circle, which nobody may open") { std::filesystem::create_symlink(file, file); }
  const auto daemon = tools::daemon::start(options);
  REQUIRE_FALSE(daemon);
  CHECK(daemon.error().code == errc::file_unreadable);
  CHECK_THAT(daemon.error().text, Catch::StartsWith(file.string() + " cannot be read: ") && Catch::Contains("leases") && Catch::Contains("`state_dir`"));
  CHECK(std::filesystem::exists(std::filesystem::symlink_status(file)));
}

TEST_CASE("a state of rubbish bytes is named without advice that is for a request") {
  const bus::test::temporary_folder folder;
  const auto state = tools::state_file::open(folder.path());
  REQUIRE(state);
  std::ofstream(folder / "ledger.msgpack", std::ios::binary) << "\x81\xa1\xff\x01";
  const auto kept = (*state)->read();
  REQUIRE_FALSE(kept);
  CHECK(kept.error().code == errc::corrupt);
  CHECK_THAT(kept.error().text, Catch::Contains("not UTF-8") && !Catch::Contains("token ids"));
}

TEST_CASE("a state of another number of cards is moved aside, named, and holds again for as many cards once it is moved back") {
  const bus::test::temporary_folder folder;
  const auto started = [&](std::size_t n_cards) {
    auto options = demo_on(n_cards);
    options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
    options.from.state_dir = (folder / "state").string();
    auto daemon = tools::daemon::start(options);
    if (!daemon) throw std::runtime_error(daemon.error().text);
    return std::move(*daemon);
  };
  const auto client = [&] { return *connect_to_daemon("ipc://" + (folder / "commands").string()); };
  bus::lease list;
  list.action = "list";
  const auto n_leases = [&] { return answer_of<bus::lease_report>(*client(), list).leases.size(); };
  const auto file = folder / "state" / "ledger.msgpack";
  const std::filesystem::path of_two = file.string() + ".other-cards-2";
  {
    const auto two = started(2);
    bus::lease asked;
    asked.action = "acquire";
    asked.owner = "test";
    asked.device = 1;
    asked.mib = 2;
    answer_of<bus::lease_report>(*client(), asked);
  }
  {
    const auto one = started(1);
    REQUIRE(one->state_trouble());
    CHECK_THAT(one->state_trouble()->text, Catch::StartsWith(file.string() + ": ") && Catch::Contains("2 card(s)") && Catch::Contains("leases begin anew") &&
                                               Catch::Contains("it was moved to " + of_two.string()));
    CHECK(n_leases() == 0);
    answer_of<bus::vram_report>(*client(), bus::vram{3, 0});  // so that a state of this run is written
  }
  {
    const auto two = started(2);
    CHECK(two->state_trouble());
    CHECK(n_leases() == 0);
  }
  CHECK(std::filesystem::exists(file.string() + ".other-cards-1"));
  std::filesystem::rename(of_two, file);
  const auto two = started(2);
  CHECK_FALSE(two->state_trouble());
  CHECK(n_leases() == 1);
}

TEST_CASE("a journal holds what was asked and answered, and a lease or a prompt in it is nobody else's to read") {
  const bus::test::temporary_folder folder;
  auto options = demo_on(1);
  options.from.bus.listen = {"ipc://" + (folder / "commands").string()};
  options.from.state_dir = (folder / "state").string();
  options.from.journal = (folder / "journal").string();
  {
    const auto daemon = tools::daemon::start(options);
    REQUIRE(daemon);
    const auto client = *connect_to_daemon(options.from.bus.listen.front());
    answer_of<bus::done>(*client, greedy(3));
  }
  auto reader = bus::journal_reader::open(options.from.journal);
  REQUIRE(reader);
  int n_in = 0, n_out = 0;
  for (;;) {
    const auto record = reader->next();
    REQUIRE(record);
    if (!*record) break;
    if (const auto* message = std::get_if<bus::journal_message>(&**record)) ++(message->direction == bus::journal_direction::in ? n_in : n_out);
  }
  CHECK(n_in == 1);
  CHECK(n_out == 4);  // three tokens and the end
  CHECK((std::filesystem::status(options.from.journal).permissions() & std::filesystem::perms::all) == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}
