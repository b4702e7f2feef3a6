// tests/fuzz/http_fuzz.cpp: any body is a command that the bus takes, or is refused with a 4xx and JSON; any bytes of a connection are
// answered with HTTP, or with the end of the connection. The first byte says which of them the rest is.
#include "bus/codec.hpp"
#include "bus/http/answer_request.hpp"
#include "bus/http/lease_request.hpp"
#include "bus/http/request_server.hpp"
#include "bus/http/vram_request.hpp"
#include "config/assert.hpp"
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace {

using namespace ebb;
using namespace ebb::bus;
using namespace ebb::bus::http;

void check_refusal(const problem& why) {
  EBB_ASSERT(why.status >= 400 && why.status < 500);
  EBB_ASSERT(!why.code.empty() && !why.message.empty());
  const auto body = nlohmann::json::parse(body_of(why));
  EBB_ASSERT(body.at("error").at("code") == why.code);
}

void check_command(const command& what) {
  const request_id id{std::uint64_t{1}};
  const auto read = decode_request(encode_request({id, false, what}));
  EBB_ASSERT(read.has_value());
  EBB_ASSERT(read->command == what);
}

template <class Parsed, class Check>
void check(const outcome<Parsed>& parsed, Check check_parsed) {
  if (parsed) check_parsed(*parsed);
  else check_refusal(parsed.error());
}

void check_answer(const answer_request& asked) {
  EBB_ASSERT(!asked.choices.empty());
  EBB_ASSERT(asked.choices.size() == asked.echoes.size());
  for (const generate& each : asked.choices) check_command(each);
}

// As the connection loop does. False: there is no request that a worker would get.
bool gather(connection& from, const guard& rules) {
  const auto end = from.unread.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const auto head = read_head(std::string_view(from.unread).substr(0, end + 4));
  if (!head) {
    check_refusal(head.error());
    return false;
  }
  from.unread.erase(0, end + 4);
  from.phase = phase::work;
  from.head = *head;
  from.body.clear();
  from.body_whole = !head->has_body();
  if (from.body_whole || !rules.wants_body(*head)) return true;
  const auto whole = body_reader(*head).take(from.unread, from.body);
  if (!whole) check_refusal(whole.error());
  from.body_whole = whole.has_value() && *whole;
  return from.body_whole;
}

// What a server makes of it: the answer must be HTTP.
void check_connection(std::string_view bytes) {
  static const routes all = [] {
    routes made;
    const auto echo = [](const bus::http::request& asked) { return response{.status = 200, .type = "text/plain", .body = asked.body, .headers = {}, .stream = {}}; };
    made.add("GET", "/echo/{}", echo);
    made.add("POST", "/echo", echo);
    return made;
  }();
  static const guard rules({.key = {}, .trusted_origins = {"http://a.example"}, .address = "127.0.0.1", .loopback = true});
  static request_server server(all, rules);
  std::array<int, 2> ends{};
  EBB_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  const file_descriptor client(ends[0]);
  connection served;
  served.socket = file_descriptor(ends[1]);
  served.unread = bytes;
  ::shutdown(client.get(), SHUT_WR);
  while (gather(served, rules) && server.serve(served) == request_server::after::keep) {
  }
  std::array<char, 12> begin{};
  const ssize_t got = ::recv(client.get(), begin.data(), begin.size(), MSG_DONTWAIT);
  EBB_ASSERT(got <= 0 || std::string_view(begin.data(), static_cast<std::size_t>(got)).starts_with("HTTP/1.1 "));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0: check(parse_vram(rest), [](const vram& wanted) { check_command(wanted); }); break;
    case 1: check(parse_acquire(rest, {}), [](const acquire_request& asked) { check_command(asked.wanted); }); break;
    case 2:
      check(parse_renew(rest), [](lease wanted) {
        wanted.lease_id = 1;  // which comes from the path
        check_command(wanted);
      });
      break;
    case 3: check(parse_chat(rest, 1), check_answer); break;
    case 4: check(parse_completion(rest, 1), check_answer); break;
    default: check_connection(rest); break;
  }
  return 0;
}
