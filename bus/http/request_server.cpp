#include "bus/http/request_server.hpp"
#include "bus/http/text.hpp"
#include "bus/http/timed_stream.hpp"
#include "config/assert.hpp"
#include "config/limits.hpp"
#include "config/utf8.hpp"
#include <exception>
#include <optional>
#include <utility>

namespace ebb::bus::http {
namespace {

response not_found(const request& asked, const routes::found& found) {
  if (found.methods.empty()) return response_of({404, "unknown_url", "there is nothing at " + in_quotes(asked.path), {}});
  std::string allowed;
  for (const std::string& each : found.methods) allowed += (allowed.empty() ? "" : ", ") + each;
  response out = response_of({405, "method_not_allowed", asked.method + " is not for " + in_quotes(asked.path) + "; allowed: " + allowed, {}});
  out.headers.emplace_back("Allow", allowed);
  return out;
}

const char* text_of_status(int status) {
  switch (status) {
    case 400: return "the request is no HTTP/1.1 that is understood here";
    case 414: return "the request line is too long";
    case 416: return "the Range is none";
    default: return "the request cannot be served";
  }
}

// All of the head that is cpp-httplib's business: what to answer to is ours, and lengths of bodies are nobody's any more.
std::string head_for_httplib(const request_head& of) {
  const char* connection = of.closes ? "Connection: close\r\n" : of.old ? "Connection: Keep-Alive\r\n" : "";
  return of.method + " " + of.target + (of.old ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n") + connection + "\r\n";
}

class chunk_writer final : public body_writer {
 public:
  chunk_writer(httplib::DataSink& sink, timed_stream& stream) : sink_(sink), stream_(stream) {}
  bool write(std::string_view text) override {
    if (text.empty()) return !stream_.broken();
    return sink_.write(text.data(), text.size()) && stream_.flush();
  }

 private:
  httplib::DataSink& sink_;
  timed_stream& stream_;
};

}  // namespace

class request_server::processor final : public httplib::Server {
 public:
  processor(const routes& all, const guard& rules) : routes_(all), guard_(rules) {
    // The real path is looked up in the routes: a pattern costs a regex whose stack grows with the path.
    const std::string pattern = "/";
    const auto without_body = [this](const httplib::Request& asked, httplib::Response& answer) { respond(asked, answer); };
    const auto with_body = [this](const httplib::Request& asked, httplib::Response& answer, const httplib::ContentReader&) { respond(asked, answer); };
    Get(pattern, without_body);
    Options(pattern, without_body);
    Post(pattern, with_body);
    Put(pattern, with_body);
    Patch(pattern, with_body);
    Delete(pattern, with_body);
    set_error_handler([this](const httplib::Request&, httplib::Response& answer) { explain(answer); });
    set_exception_handler([this](const httplib::Request&, httplib::Response& answer, std::exception_ptr) { answer.status = 500; explain(answer); });
    set_keep_alive_timeout(limits::http_idle_timeout.count());
    set_keep_alive_max_count(1'000'000);  // said in a header; nobody counts
    svr_sock_ = 0;  // a stream of an answer ends early while there is none
  }
  ~processor() override { svr_sock_ = INVALID_SOCKET; }

  after serve(connection& client) {
    const std::string head = head_for_httplib(client.head);
    timed_stream stream(client.socket.get(), head, client.address);
    client_ = &client;
    stream_ = &stream;
    last_ = unread_ = false;
    bool closing = false;
    const bool done = process_request(stream, false, closing, [this](httplib::Request& asked) { set_up(asked); });
    const bool sent = stream.flush();
    stream_ = nullptr;
    client_ = nullptr;
    if (!done || !sent) return after::close;
    if (unread_) return after::drain;
    return closing || last_ ? after::close : after::keep;
  }

 private:
  void set_up(httplib::Request& asked) { path_ = std::exchange(asked.path, "/"); }

  void respond(const httplib::Request& asked, httplib::Response& answer) {
    request translated = translate(asked);
    response made;
    try {
      made = answer_to(translated);
    } catch (const std::exception&) {
      made = response_of({500, "internal", "a mistake of ours; please report what was asked", {}});
    }
    for (auto& header : guard_.headers_for(translated)) made.headers.push_back(std::move(header));
    put(std::move(made), asked, answer);
  }

  request translate(const httplib::Request& from) const {
    request out;
    out.method = from.method;
    out.path = path_;
    out.headers = client_->head.headers;
    for (const auto& [name, value] : from.params) out.query.emplace(name, value);
    out.peer = client_->peer;
    return out;
  }

  response answer_to(request& asked) {
    unread_ = !client_->body_whole;
    if (auto admitted = guard_.judge_sender(asked); !admitted) return response_of(admitted.error());
    if (asked.path.size() > limits::http_path_bytes_max) return response_of({414, "too_large", "the path is longer than any that is served", {}});
    auto found = routes_.find(asked.method, asked.path);  // no route is for OPTIONS, so it finds the methods
    if (asked.method == "OPTIONS") {
      return found.methods.empty() ? not_found(asked, found) : guard_.preflight(asked, found.methods);
    }
    const bool open = found.route != nullptr && found.route->access == access::open;
    if (!open) {
      if (auto admitted = guard_.judge_key(asked); !admitted) return response_of(admitted.error());
    }
    if (found.route == nullptr) return not_found(asked, found);
    if (auto admitted = guard::judge_body(asked); !admitted) return response_of(admitted.error());
    if (unread_) return response_of({400, "malformed", asked.method + " has no body here", {}});
    asked.body = std::move(client_->body);
    asked.parts = std::move(found.parts);
    return found.route->handler(asked);
  }

  void put(response made, const httplib::Request& asked, httplib::Response& answer) {
    answer.status = made.status;
    for (const auto& [name, value] : made.headers) answer.set_header(name, value);
    if (!answer.has_header("Cache-Control")) answer.set_header("Cache-Control", "no-store");
    answer.set_header("X-Content-Type-Options", "nosniff");
    const bool old = asked.version == "HTTP/1.0";  // knows no chunks: the end of the connection ends the body
    if (unread_ || (old && made.stream)) end_connection(answer);
    if (!made.stream) {
      if (!made.type.empty()) answer.set_content(std::move(made.body), made.type);
      return;
    }
    const auto provide = [this, run = std::move(made.stream)](std::size_t, httplib::DataSink& sink) {
      if (!stream_->flush()) return false;
      chunk_writer writer(sink, *stream_);
      run(writer);
      sink.done();
      return true;
    };
    if (old) answer.set_content_provider(made.type, provide);
    else answer.set_chunked_content_provider(made.type, provide);
  }

  // What cpp-httplib refuses by itself has no body yet, and nobody knows where the next request begins.
  void explain(httplib::Response& answer) {
    if (!answer.body.empty() || answer.content_provider_) return;
    answer.set_content(body_of({answer.status, "malformed", text_of_status(answer.status), {}}), "application/json");
    unread_ = true;
    end_connection(answer);
  }

  void end_connection(httplib::Response& answer) {
    last_ = true;
    answer.set_header("Connection", "close");
  }

  const routes& routes_;
  const guard& guard_;
  connection* client_ = nullptr;    // of the request under way, as are the others
  timed_stream* stream_ = nullptr;
  std::string path_;
  bool last_ = false;               // no request comes after it
  bool unread_ = false;             // bytes of the body may still come
};

request_server::request_server(const routes& all, const guard& rules) : processor_(std::make_unique<processor>(all, rules)) {}
request_server::~request_server() = default;

request_server::after request_server::serve(connection& client) {
  EBB_ASSERT(client.phase == phase::work);
  return processor_->serve(client);
}

}  // namespace ebb::bus::http
