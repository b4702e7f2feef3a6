// Keeps the folders in their one direction of dependency, and each outside library behind the folders that may touch it:
//   config <- kernels <- model <- actors <- tools          config <- bus <- actors       (arrow: "is included by")
// tests/ may include everything. A line that includes counts even where the preprocessor would skip it.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using folder_set = std::set<std::string>;

const std::map<std::string, folder_set> may_include = {
    {"config", {"config"}},
    {"kernels", {"config", "kernels"}},
    {"model", {"config", "kernels", "model"}},
    {"bus", {"config", "bus"}},
    {"actors", {"config", "kernels", "model", "bus", "actors"}},
    {"tools", {"config", "kernels", "model", "bus", "actors", "tools"}},
};

struct outside_library {
  std::string beginning;  // of what stands between the angle brackets
  folder_set allowed_in;
};

const std::vector<outside_library> outside_libraries = {
    {"toml++/", {"config"}},
    {"cuda", {"kernels"}},
    {"cublas", {"kernels"}},
    {"pcre2.h", {"model"}},
    {"xxhash.h", {"model"}},
    {"zmq", {"bus"}},
    {"msgpack", {"bus"}},
    {"httplib.h", {"bus"}},
    {"nlohmann/", {"bus", "tools"}},
    {"caf/", {"actors", "tools"}},
    {"CLI/", {"tools"}},
    {"spdlog/", {"tools"}},
    {"tl/expected.hpp", {"config", "kernels", "model", "bus", "actors", "tools"}},
};

// What the system and the compiler bring, beside the standard library, whose headers have no dot.
const std::array system_headers = {"sys/",      "linux/",  "netinet/", "arpa/",       "unistd.h", "fcntl.h", "poll.h",
                                   "netdb.h", "pthread.h", "sched.h", "signal.h", "immintrin.h", "cpuid.h",  "dlfcn.h",  "termios.h", "locale.h", "malloc.h"};

bool is_system_header(const std::string& header) {
  if (header.find('.') == std::string::npos && header.find('/') == std::string::npos) return true;
  return std::any_of(system_headers.begin(), system_headers.end(), [&](const char* beginning) { return header.rfind(beginning, 0) == 0; });
}

std::string judge_quoted(const std::string& folder, const std::string& header) {
  const std::string target = header.substr(0, header.find('/'));
  if (may_include.count(target) == 0 || target == header) return "write the path from the root of the project";
  return may_include.at(folder).count(target) ? "" : folder + "/ may not include " + target + "/";
}

std::string judge_angled(const std::string& folder, const std::string& header) {
  for (const outside_library& library : outside_libraries) {
    if (header.rfind(library.beginning, 0) == 0) return library.allowed_in.count(folder) ? "" : folder + "/ may not touch this library";
  }
  return is_system_header(header) ? "" : "no rule knows this library: give it its folder in this test and in docs/ARCHITECTURE.md";
}

// What stands between the brackets or quotes of an include, and which of the two; nothing for any other line.
struct inclusion {
  std::string header;
  bool quoted;
};

std::optional<inclusion> parse_include(const std::string& line) {
  constexpr std::string_view blank = " \t", directive = "include";
  std::string_view rest = line;
  const auto skip_blanks = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(blank), rest.size())); };
  skip_blanks();
  if (!rest.starts_with('#')) return std::nullopt;
  rest.remove_prefix(1);
  skip_blanks();
  if (!rest.starts_with(directive)) return std::nullopt;
  rest.remove_prefix(directive.size());
  skip_blanks();
  if (!rest.starts_with('<') && !rest.starts_with('"')) return std::nullopt;
  const bool quoted = rest.front() == '"';
  rest.remove_prefix(1);
  return inclusion{std::string(rest.substr(0, rest.find(quoted ? '"' : '>'))), quoted};
}

// One text a line of `source` that breaks a rule: "model/a.cpp:3: caf/all.hpp: model/ may not touch this library".
std::vector<std::string> violations_in(const std::string& path, std::istream& source) {
  const std::string folder = path.substr(0, path.find('/'));
  std::vector<std::string> found;
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    const auto include = parse_include(line);
    if (!include) continue;
    const std::string wrong = include->quoted ? judge_quoted(folder, include->header) : judge_angled(folder, include->header);
    if (!wrong.empty()) found.push_back(path + ":" + std::to_string(number) + ": " + include->header + ": " + wrong);
  }
  return found;
}

std::vector<std::string> violations_in_text(const std::string& path, const std::string& text) {
  std::istringstream source(text);
  return violations_in(path, source);
}

bool is_source(const std::filesystem::path& path) {
  static const std::set<std::string> extensions = {".hpp", ".cpp", ".h", ".cu", ".cuh"};
  return extensions.count(path.extension().string()) != 0;
}

}  // namespace

TEST_CASE("every include of the project follows the one direction of dependency") {
  const std::filesystem::path root = EBB_SOURCE_DIR;
  for (const auto& [folder, allowed] : may_include) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      ++files;
      std::ifstream source(entry.path());
      for (const std::string& violation : violations_in(entry.path().lexically_relative(root).string(), source)) FAIL_CHECK(violation);
    }
    INFO("a folder without sources would pass unread: " << folder);
    CHECK(files > 0);
  }
}

TEST_CASE("an include against the direction is found with its file and line") {
  CHECK(violations_in_text("bus/bad.cpp", "#include \"bus/codec.hpp\"\n\n#include \"kernels/format.hpp\"\n") ==
        std::vector<std::string>{"bus/bad.cpp:3: kernels/format.hpp: bus/ may not include kernels/"});
  CHECK(violations_in_text("config/bad.hpp", "#include \"bus/codec.hpp\"\n").size() == 1);
  CHECK(violations_in_text("model/bad.cpp", "  #  include \"actors/card.hpp\"  // indented\n").size() == 1);
  CHECK(violations_in_text("kernels/cuda/bad.cu", "#include \"model/catalog.hpp\"\n").size() == 1);
}

TEST_CASE("an outside library in another folder than its own is found, and so is one that no rule knows") {
  CHECK(violations_in_text("model/bad.cpp", "#include <caf/all.hpp>\n") ==
        std::vector<std::string>{"model/bad.cpp:1: caf/all.hpp: model/ may not touch this library"});
  CHECK(violations_in_text("actors/bad.cpp", "#include <zmq.hpp>\n#include <toml++/toml.h>\n#include <CLI/CLI.hpp>\n").size() == 3);
  CHECK(violations_in_text("tools/bad.cpp", "#include <boost/asio.hpp>\n").size() == 1);
}

TEST_CASE("an include that is not written from the root of the project is found") {
  CHECK(violations_in_text("bus/bad.cpp", "#include \"codec.hpp\"\n").size() == 1);
  CHECK(violations_in_text("bus/bad.cpp", "#include \"../config/result.hpp\"\n").size() == 1);
  CHECK(violations_in_text("bus/bad.cpp", "#include \"config\"\n").size() == 1);
}

TEST_CASE("includes along the direction, of the folder's own library and of the system are allowed") {
  CHECK(violations_in_text("actors/good.cpp",
                           "#include \"bus/messages.hpp\"\n#include \"model/catalog.hpp\"\n#include <caf/all.hpp>\n"
                           "#include <vector>\n#include <sys/mman.h>\n// #include <zmq.hpp>\n")
            .empty());
}
