// tests/fuzz/chat_template_fuzz.cpp: any bytes are a template or an error, and rendering one ends, in valid UTF-8.
#include "config/assert.hpp"
#include "config/utf8.hpp"
#include "model/chat_template.hpp"
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb::model;
  const auto chat = chat_template::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!chat) return 0;
  static const std::vector<chat_message> messages = {{"system", "Be terse.", {}, ""},
                                                     {"user", " Grüße\n", {}, "Ann"},
                                                     {"assistant", "<think>\na\n</think>\n\nb", {}, ""},
                                                     {"user", "", {"one", "two"}, ""}};
  chat_options options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.now = std::chrono::sys_seconds(std::chrono::seconds(1'700'000'000));
  const auto out = chat->render(messages, options);
  if (!out) return 0;
  EBB_ASSERT(ebb::is_valid_utf8(out->text));
  std::size_t end = 0;
  for (const byte_range& range : out->foreign) {
    EBB_ASSERT(range.begin >= end && range.begin < range.end);
    end = range.end;
  }
  EBB_ASSERT(end <= out->text.size());
  return 0;
}
