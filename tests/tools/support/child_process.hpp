// tests/tools/support/child_process.hpp: a program run as a user runs it; what it prints goes to files and can be read at any time.
#pragma once
#include "tests/bus/support/temporary_folder.hpp"
#include "tests/tools/support/demo.hpp"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <spawn.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ebb::tools::test {

using variables = std::vector<std::pair<std::string, std::string>>;

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class child_process {
 public:
  // words[0] is the program's path. `changed` are variables that differ from those of the test.
  // Its input is empty, or open until close_input() if `with_input`.
  explicit child_process(std::vector<std::string> words, const variables& changed = {}, bool with_input = false) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    int input[2] = {-1, -1};
    if (with_input && ::pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error(std::string("a pipe: ") + std::strerror(errno));
    constexpr int create = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
    if (with_input) posix_spawn_file_actions_adddup2(&files, input[0], STDIN_FILENO);
    else posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out_path().c_str(), create, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err_path().c_str(), create, 0600);
    std::vector<std::string> environment = merged(changed);
    const int failed = posix_spawn(&pid_, words.front().c_str(), &files, nullptr, pointers(words).data(), pointers(environment).data());
    posix_spawn_file_actions_destroy(&files);
    if (with_input) ::close(input[0]);
    input_ = input[1];
    if (failed != 0) throw std::runtime_error(words.front() + ": " + std::strerror(failed));
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  ~child_process() {
    close_input();
    if (!running()) return;
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  bool running() {
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return !status_;
  }

  // Waits for the end. Minus the signal's number if one ended it.
  int exit_code() {
    if (!comes_true([this] { return !running(); })) throw std::runtime_error("a program does not end; it has printed: " + out() + err());
    return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : -WTERMSIG(*status_);
  }

  void write_input(std::string_view text) const {
    if (::write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw std::runtime_error("a program takes no input");
  }
  void close_input() {
    if (input_ >= 0) ::close(std::exchange(input_, -1));
  }

  void send(int signal) const { kill(pid_, signal); }
  pid_t pid() const noexcept { return pid_; }
  std::string out() const { return content_of(out_path()); }
  std::string err() const { return content_of(err_path()); }

 private:
  std::string out_path() const { return (folder_ / "out").string(); }
  std::string err_path() const { return (folder_ / "err").string(); }

  static std::vector<std::string> merged(const variables& changed) {
    std::vector<std::string> all;
    for (const auto& [name, value] : changed) all.push_back(name + "=" + value);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string line = *entry;
      const std::string name = line.substr(0, line.find('='));
      const auto is_name = [&](const auto& change) { return change.first == name; };
      if (std::none_of(changed.begin(), changed.end(), is_name)) all.push_back(line);
    }
    return all;
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

  bus::test::temporary_folder folder_;
  pid_t pid_ = 0;
  int input_ = -1;  // what is written here it reads
  std::optional<int> status_;
};

// What a program that has ended left behind.
struct outcome {
  int code;
  std::string out;
  std::string err;
};

inline outcome run_program(std::vector<std::string> words, const variables& changed = {}) {
  child_process child(std::move(words), changed);
  const int code = child.exit_code();
  return {code, child.out(), child.err()};
}

}  // namespace ebb::tools::test
