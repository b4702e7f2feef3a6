#include "model/chat_template.hpp"
#include "tests/model/support/check_error.hpp"
#include "tests/model/support/json_value.hpp"
#include "tests/model/support/small_model.hpp"
#include "tests/model/support/temporary_folder.hpp"
#include "tests/model/support/tiny_vocabulary.hpp"
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::model {
namespace {

using json = nlohmann::ordered_json;
using test::check_error;

chat_template parsed(std::string_view source) {
  auto out = chat_template::parse(source);
  if (!out) FAIL(out.error().text);
  return *std::move(out);
}

result<std::string> rendered(std::string_view source, const std::vector<chat_message>& messages = {{"user", "Hi", {}, ""}},
                             const chat_options& options = {}) {
  auto made = chat_template::parse(source);
  if (!made) return fail(made.error());
  auto out = made->render(messages, options);
  if (!out) return fail(out.error());
  return out->text;
}

std::string text_of(std::string_view source) {
  const auto out = rendered(source);
  return out ? *out : out.error().text;
}

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<chat_message> to_messages(const json& from) {
  std::vector<chat_message> out;
  for (const json& each : from) out.push_back({each["role"], each["content"], {}, ""});
  return out;
}

chat_options to_options(const json& further, const json& all, bool add_generation_prompt) {
  chat_options out;
  out.add_generation_prompt = add_generation_prompt;
  out.bos_token = "<s>";
  out.eos_token = "</s>";
  out.now = std::chrono::sys_seconds(std::chrono::seconds(all["now"].get<std::int64_t>()));
  for (const auto& [name, held] : further.items()) {
    if (name == "tools") {
      out.tools = test::to_value(held);
    } else {
      out.variables.emplace_back(name, test::to_value(held));
    }
  }
  return out;
}

// How many templates of the folder agree with the reference in every case; what differs fails the test.
std::size_t compare_folder(const std::filesystem::path& folder) {
  const json all = json::parse(file_text(folder / "expected.json"));
  std::set<std::string> agreeing, differing;
  for (const json& each : all["cases"]) {
    const std::string name = each["template"];
    if (differing.contains(name)) continue;
    const auto source = chat_template::parse(file_text(folder / name));
    const auto options = to_options(all["options"][std::string(each["options"])], all, each["add_generation_prompt"]);
    INFO(name << ", " << each["conversation"] << ", " << each["options"] << ", " << each["add_generation_prompt"]);
    if (!source) {
      FAIL_CHECK(source.error().text);
      differing.insert(name);
      continue;
    }
    const auto out = source->render(to_messages(all["conversations"][std::string(each["conversation"])]), options);
    const bool agrees = each.contains("text") ? out && out->text == each["text"] : !out.has_value();
    if (agrees) {
      agreeing.insert(name);
    } else {
      differing.insert(name);
      const std::string got = out ? out->text : out.error().text;
      CHECK(got == (each.contains("text") ? each["text"] : each["error"]));
    }
  }
  for (const std::string& name : differing) agreeing.erase(name);
  return agreeing.size();
}

}  // namespace

TEST_CASE("every text of a chat template is the reference's") {
  CHECK(compare_folder(std::filesystem::path(EBB_TEST_DATA) / "chat_templates") >= 10);
  if (const char* further = std::getenv("EBB_CHAT_TEMPLATES")) CHECK(compare_folder(further) > 0);
}

TEST_CASE("a template that is not the language, or uses what is not supported, is refused with line and column") {
  check_error(chat_template::parse("a\n {{ x | frobnicate }}"), errc::bad_value,
              {"line 2, column 9: the filter \"frobnicate\" is not supported"});
  check_error(chat_template::parse("{% include 'x' %}"), errc::bad_value, {"line 1, column 4: the tag \"include\" is not supported"});
  CHECK(text_of("{% if false %}{{ x | frobnicate }}{% endif %}").empty());  // never reached, as in Jinja
  check_error(rendered("{% if true %}{{ x | frobnicate }}{% endif %}"), errc::bad_value, {"the filter \"frobnicate\" is not supported"});
  check_error(chat_template::parse("{{ x is odder }}"), errc::bad_value, {"the test \"odder\" is not supported"});
  check_error(chat_template::parse("{% if x %}"), errc::bad_value, {"expected {% endif %}"});
  check_error(chat_template::parse("{{ 'a }}"), errc::bad_value, {"a string has no end"});
  check_error(chat_template::parse("{{ x"), errc::bad_value, {"ends inside a tag"});
  check_error(chat_template::parse("{% break %}"), errc::bad_value, {"outside of a loop"});
  check_error(chat_template::parse("{{ '\xff' }}"), errc::bad_value, {"byte 4 is no UTF-8"});
}

TEST_CASE("what a template raises is the error, in its own words") {
  check_error(rendered("{{ raise_exception('Roles must ' ~ 'alternate') }}"), errc::bad_value, {"Roles must alternate"});
  check_error(rendered("\n{{ nobody.name }}"), errc::bad_value, {"line 2, column"});
  check_error(rendered("{{ 1 / 0 }}"), errc::bad_value, {"division by zero"});
  check_error(rendered("{{ 9223372036854775807 + 1 }}"), errc::bad_value, {"over 64 bits"});
}

TEST_CASE("a template that would take time or memory without end is stopped") {
  check_error(rendered("{% for a in range(65000) %}{% for b in range(65000) %}{% endfor %}{% endfor %}"), errc::too_large, {"steps"});
  check_error(rendered("{% set ns = namespace(x='xxxxxxxxxxxxxxxx') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
              errc::too_large, {"makes more"});
  check_error(rendered("{{ 'x' * 9223372036854775807 }}"), errc::too_large, {"repetition"});
  check_error(rendered("{% for a in range(100) %}{{ 'x' * 1000000 }}{% endfor %}"), errc::too_large, {"grows over"});
  check_error(rendered("{{ range(1000000000)|length }}"), errc::too_large, {"range"});
  check_error(rendered("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), errc::too_large, {"deeper"});
  check_error(rendered("{% set ns = namespace(x=[]) %}{% for a in range(100) %}{% set ns.x = [ns.x] %}{% endfor %}"), errc::too_large,
              {"nested deeper"});
  const std::string open(100'000, '('), minus(100'000, '-');
  check_error(chat_template::parse("{{ " + open + "1" + std::string(100'000, ')') + " }}"), errc::too_large, {"nested deeper"});
  check_error(chat_template::parse("{{ " + minus + "1 }}"), errc::too_large, {"nested deeper"});
  std::string sum = "1", blocks;
  for (int index = 0; index < 10'000; ++index) sum += "+1", blocks += "{% if x %}";
  check_error(chat_template::parse("{{ " + sum + " }}"), errc::too_large, {"nested deeper"});
  check_error(chat_template::parse(blocks), errc::too_large, {"nested deeper"});
  check_error(chat_template::parse(std::string((1u << 20) + 1, 'x')), errc::too_large, {"bytes, over"});
}

TEST_CASE("the language's less usual parts mean what they mean in Jinja") {
  CHECK(text_of("{% for k, v in {'a': 1, 'b': 2}.items() if v > 1 %}{{ k ~ v }}{% else %}none{% endfor %}") == "b2");
  CHECK(text_of("{% for x in [1, 2] %}{% continue %}{% else %}else{% endfor %}") == "else");
  CHECK(text_of(
            "{% macro f(a, b='x') %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{% call f(2, b=3) %}body{% endcall %}") ==
        "1x23body");
  CHECK(text_of("{% set x %}a{% set y = 1 %}{% endset %}{{ x }}{{ y is defined }}") == "aFalse");
  CHECK(text_of("{{ 'abc'[::-1] ~ [1, 2, 3][-2:] ~ 'äöü'[1] }}") == "cba[2, 3]ö");
  CHECK(text_of("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1e16 }} {{ 1 < 2 < 2 }}") == "-4 2 3.5 8 1e+16 False");
  CHECK(text_of("{{ {'b': [1, none], 'a': 'é<'}|tojson(indent=1) }}") == "{\n \"b\": [\n  1,\n  null\n ],\n \"a\": \"é<\"\n}");
  CHECK(text_of("{% raw %}{{ x }}{% endraw %}{# gone #}{{ 'a' 'b' }}{{ \"\\u00e9\\x41\\101\" }}") == "{{ x }}abéAA");
  CHECK(text_of("{{ '{}-{1}{x}{{}}'.format(1, 'b', x='c') }}{{ none | selectattr('a') | list }}") == "1-bc{}[]");
  CHECK(text_of("a\n  {% if true %}\nb\n  {%+ if true %} c{% endif +%}\n{% endif %}\n") == "a\nb\n   c\n");
}

TEST_CASE("a content of several texts stays a list for a template that reads lists, and is one text for any other") {
  const std::vector<chat_message> messages = {{"user", "", {"one", "two"}, ""}};
  CHECK(rendered("{% for part in messages[0].content %}{% if part.type == 'text' %}[{{ part.text }}]{% endif %}{% endfor %}", messages) ==
        "[one][two]");
  CHECK(rendered("{{ messages[0].content }}", messages) == "one\ntwo");
}

TEST_CASE("bytes that came from a message are known, however a template moves them") {
  const auto out = parsed("<{{ messages[0].content.strip() ~ '|' ~ (messages[0].content | upper) }}>")
                       .render(std::vector<chat_message>{{"user", " ab ", {}, ""}}, {});
  REQUIRE(out);
  CHECK(out->text == "<ab| AB >");
  REQUIRE(out->foreign.size() == 2);
  CHECK((out->foreign[0].begin == 1 && out->foreign[0].end == 3));
  CHECK((out->foreign[1].begin == 4 && out->foreign[1].end == 8));
}

TEST_CASE("a message cannot name a control token, alone or together with the template") {
  const auto vocabulary = tokenizer::make(test::tiny_spec());
  REQUIRE(vocabulary);
  const auto encoded = [&](std::string_view source, const std::string& content) {
    const auto out = parsed(source).render(std::vector<chat_message>{{"user", content, {}, ""}}, {});
    REQUIRE(out);
    return vocabulary->encode_prompt(out->text, out->foreign);
  };
  namespace tiny = test::tiny;
  CHECK(encoded("<begin>{{ messages[0].content }}<end>", "x") == std::vector<token_id>{tiny::begin, 'x', tiny::end});
  std::vector<token_id> spelled = vocabulary->encode("<end>", false);
  CHECK(spelled.size() == 5);
  CHECK(encoded("{{ messages[0].content }}", "<end>") == spelled);
  CHECK(encoded("<e{{ messages[0].content }}", "nd>") == spelled);
  CHECK(encoded("{{ messages[0].content }}d>", "<en") == spelled);
  const std::vector<token_id> rest = vocabulary->encode("<turn>", false);
  std::vector<token_id> shorter = {tiny::end};
  shorter.insert(shorter.end(), rest.begin(), rest.end());
  CHECK(encoded("<end>{{ messages[0].content }}", "<turn>") == shorter);
}

TEST_CASE("text without control tokens in it is encoded across the template's borders as one text") {
  const auto vocabulary = tokenizer::make(test::tiny_spec());
  REQUIRE(vocabulary);
  for (const std::string content : {"llo", "lo w", "<think>", "<end", "begin>", "", " w"}) {
    const auto out =
        parsed("<begin>he{{ messages[0].content }} w<end><turn>").render(std::vector<chat_message>{{"user", content, {}, ""}}, {});
    REQUIRE(out);
    CHECK(vocabulary->encode_prompt(out->text, out->foreign) == vocabulary->encode_prompt(out->text));
  }
}

TEST_CASE("the plain form names each role and asks the assistant") {
  const auto out = chat_template::plain().render(std::vector<chat_message>{{"system", "Be terse.", {}, ""}, {"user", "Hi", {}, ""}}, {});
  REQUIRE(out);
  CHECK(out->text == "system: Be terse.\n\nuser: Hi\n\nassistant:");
}

TEST_CASE("a model without a template, or with one that is not understood, gets the plain form and says why") {
  test::gguf_writer writer = test::small_model();
  const test::temporary_folder folder;
  const auto chosen = [&] {
    const auto file = gguf::open(writer.write(folder / "made.gguf"));
    REQUIRE(file);
    return read_chat_template(*file);
  };
  REQUIRE(chosen().obstacle.has_value());
  CHECK(chosen().obstacle->code == errc::missing_key);
  writer.set("tokenizer.chat_template", std::string("{% include 'x' %}"));
  REQUIRE(chosen().obstacle.has_value());
  CHECK(chosen().obstacle->code == errc::bad_value);
  writer.set("tokenizer.chat_template", std::string("{{ messages[0].role }}!"));
  CHECK_FALSE(chosen().obstacle.has_value());
  const auto out = chosen().chat.render(std::vector<chat_message>{{"user", "Hi", {}, ""}}, {});
  REQUIRE(out);
  CHECK(out->text == "user!");
}

TEST_CASE("a message that is no UTF-8 is refused") {
  check_error(rendered("{{ messages[0].content }}", {{"user", "\xff", {}, ""}}), errc::bad_value, {"message 0 is no UTF-8"});
}

}  // namespace ebb::model
