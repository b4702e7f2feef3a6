// tests/tools/support/recording.hpp: a journal of a conversation with a virtual engine, made anew from a script.
#pragma once
#include "bus/codec.hpp"
#include "bus/journal_record.hpp"
#include "tools/version.hpp"
#include "tools/virtual_engine.hpp"
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace ebb::tools::test {

class recording {
 public:
  // `with`: the settings as TOML; they go into the header, and name no model. `model` is what `status` shows: give no path of a machine.
  recording(const std::filesystem::path& journal, const std::string& with, const std::string& model) : file_(journal, std::ios::binary) {
    settings from;
    if (auto applied = apply_toml(from, with, "settings of a recording"); !applied) throw std::runtime_error(applied.error().text);
    from.model = model;
    write(bus::journal_header{version, started, {{"settings", with}, {made_in_virtual_time.first, made_in_virtual_time.second}}});
    auto engine = virtual_engine::start(std::move(from), "", started_ms, [this](const bus::client_id& to, bus::bytes_view frame) {
      ++n_replies_;
      write_message(bus::journal_direction::out, to, frame);
    });
    if (!engine) throw std::runtime_error(engine.error().text);
    engine_ = std::move(*engine);
  }

  void send(const std::string& client, std::uint64_t id, bus::command what) { send(client, bus::request_id{id}, std::move(what)); }
  void send(const std::string& client, bus::request_id id, bus::command what) {
    const auto frame = bus::encode_request({std::move(id), false, std::move(what)});
    send(client, bus::as_text(frame));
  }
  void send(const std::string& client, std::string_view frame) {
    write_message(bus::journal_direction::in, {client}, bus::as_bytes(frame));
    if (!engine_->take({client}, bus::as_bytes(frame))) throw std::runtime_error("a virtual engine takes everything");
  }
  // As the daemon answers before it has a model.
  void send_unserved(const std::string& client, const bus::request& what, const bus::reply& answer) {
    write_message(bus::journal_direction::in, {client}, bus::encode_request(what));
    write_message(bus::journal_direction::out, {client}, bus::encode_reply(answer, false));
  }
  void leave(const std::string& client) {
    write(bus::journal_gone{next_stamp(), {client}});
    engine_->client_left({client});
  }

  // Until so many replies more have come.
  void run_for(std::uint64_t n_replies) {
    const std::uint64_t reached = n_replies_ + n_replies;
    while (n_replies_ < reached) {
      if (!engine_->run_once()) throw std::runtime_error("the engine came to rest before the replies that the script waits for");
    }
  }
  void run_to_rest() { engine_->run_to_rest(); }
  void pass(std::chrono::milliseconds time) { engine_->move_to(engine_->now() + time); }
  void stop() { engine_->stop(); }

 private:
  static constexpr std::uint64_t started_ms = 1'700'000'000'000;
  static constexpr std::chrono::nanoseconds started = std::chrono::milliseconds(started_ms);

  bus::journal_stamp next_stamp() { return {++sequence_, engine_ ? engine_->now() : std::chrono::nanoseconds(0)}; }
  void write_message(bus::journal_direction direction, const bus::client_id& client, bus::bytes_view frame) {
    write(bus::journal_message{next_stamp(), direction, client, {frame.begin(), frame.end()}});
  }
  void write(const bus::journal_record& record) {
    const auto bytes = bus::encode_journal_record(record);
    file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  std::ofstream file_;
  std::uint64_t sequence_ = 0;
  std::uint64_t n_replies_ = 0;
  std::unique_ptr<virtual_engine> engine_;  // last, since its end may still send
};

}  // namespace ebb::tools::test
