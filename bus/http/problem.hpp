// bus/http/problem.hpp: why a request is not served, and the one shape in which every route says so:
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "reserve_mib", "code": "bad_value"}}
#pragma once
#include "bus/http/message.hpp"
#include "config/result.hpp"
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace ebb::bus::http {

struct problem {
  int status = 400;
  std::string code;     // of errc, or of OpenAI's where its clients look for one
  std::string message;
  std::string param;    // the field at fault; empty: none
};

template <class T>
using outcome = tl::expected<T, problem>;

inline tl::unexpected<problem> refuse(int status, std::string code, std::string message, std::string param = {}) {
  return tl::unexpected<problem>({status, std::move(code), std::move(message), std::move(param)});
}

// How a command was refused. Whoever asks for an answer of the model is told 429 of a full queue, others 409.
enum class asked_for : std::uint8_t { memory, answer };
// Where its text begins with a field, that is the one at fault.
problem problem_of(const error& why, asked_for what);

// In the words of HTTP, where a field of the bus has another name.
problem with_field(problem why, std::string_view on_the_bus, std::string_view here);

std::string body_of(const problem& why);
response response_of(const problem& why);

}  // namespace ebb::bus::http
