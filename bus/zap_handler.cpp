#include "bus/zap_handler.hpp"
#include "bus/curve_keys.hpp"
#include "config/assert.hpp"
#include <array>

namespace ebb::bus {
namespace {

// The parts of a question; after these come the credentials, which of CURVE are one part: the client's public key.
enum part : std::size_t { version, request_id, domain, address, identity, mechanism, credentials, parts_of_curve };

std::vector<zmq::message_t> take_question(zmq::socket_t& from) {
  std::vector<zmq::message_t> parts;
  do {
    if (!from.recv(parts.emplace_back(), zmq::recv_flags::dontwait)) return {};
  } while (parts.back().more());
  return parts;
}

}  // namespace

zap_handler::zap_handler(zmq::context_t& context, const std::vector<std::string>& clients) : asked_(context, zmq::socket_type::rep) {
  for (const std::string& each : clients) clients_.insert(decoded_curve_key(each));
  asked_.set(zmq::sockopt::linger, 0);
  asked_.bind("inproc://zeromq.zap.01");
}

bool zap_handler::may_connect(const std::vector<zmq::message_t>& question) const {
  return question.size() == parts_of_curve && question[version].to_string_view() == "1.0" &&
         question[mechanism].to_string_view() == "CURVE" && clients_.contains(question[credentials].to_string());
}

void zap_handler::answer() {
  while (true) {
    const auto question = take_question(asked_);
    if (question.empty()) return;
    EBB_ASSERT(question.size() > request_id);  // ZeroMQ itself asks: the address is known in this process only
    const bool allowed = may_connect(question);
    const std::array<std::string_view, 6> reply = {"1.0",
                                                   question[request_id].to_string_view(),
                                                   allowed ? "200" : "400",
                                                   allowed ? "OK" : "this public key is not among the daemon's clients",
                                                   "",
                                                   ""};
    for (std::size_t index = 0; index < reply.size(); ++index) {
      const auto more = index + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      static_cast<void>(asked_.send(zmq::buffer(reply[index]), more | zmq::send_flags::dontwait));
    }
  }
}

}  // namespace ebb::bus
