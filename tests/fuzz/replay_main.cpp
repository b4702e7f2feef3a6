// tests/fuzz/replay_main.cpp: runs a fuzz target without libFuzzer: on files, and on seeded mutations of them.
//
//   NAME_fuzz FILE...                   each file once, as libFuzzer does: to see a crash again
//   NAME_fuzz --seconds N FOLDER        every file of the folder, then mutations of them for N seconds
//
// The folder runs in a child process. When that crashes, the input that it was at is written to NAME_fuzz.crash here.
#include "config/assert.hpp"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using input = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

constexpr std::uint64_t seed = 0x6562622d65626221;   // fixed: every machine tries the same inputs, as many as it has time for
constexpr std::size_t input_bytes_max = 256u << 10;  // mutations grow no further; larger inputs only cost time
constexpr std::size_t mutations_max = 8;             // of one input: more leave little of the format that the corpus teaches

input read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class mutator {
 public:
  explicit mutator(std::vector<input> corpus) : corpus_(std::move(corpus)) {}

  input next() {
    input bytes = corpus_[below(corpus_.size())];
    for (std::size_t count = 1 + below(mutations_max); count > 0; --count) mutate(bytes);
    bytes.resize(std::min(bytes.size(), input_bytes_max));
    return bytes;
  }

 private:
  // In [0, bound), or 0 when there is nothing to choose from. The slight bias of % is harmless here.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::uint8_t byte() {
    static constexpr std::uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '\n', '"', ' '};
    return below(2) == 0 ? telling[below(std::size(telling))] : static_cast<std::uint8_t>(random_());
  }

  void mutate(input& bytes) {
    const std::size_t at = below(bytes.size());
    switch (below(6)) {
      case 0: bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + below(4), byte()); return;
      case 1: bytes.resize(at); return;
      case 2: erase(bytes, at); return;
      case 3: splice(bytes, at); return;
      case 4:
        if (!bytes.empty()) bytes[at] ^= static_cast<std::uint8_t>(1u << below(8));
        return;
      default:
        if (!bytes.empty()) bytes[at] = byte();
        return;
    }
  }

  void erase(input& bytes, std::size_t at) {
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    bytes.erase(first, first + static_cast<std::ptrdiff_t>(std::min(below(16), bytes.size() - at)));
  }

  // Goes on at `at` with the end of another input, as if two messages had been mixed.
  void splice(input& bytes, std::size_t at) {
    const input& other = corpus_[below(corpus_.size())];
    bytes.resize(at);
    bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
  }

  std::vector<input> corpus_;
  std::mt19937_64 random_{seed};
};

// The input that is being run, in memory that outlives the process that runs it.
class shared_input {
 public:
  shared_input() {
    void* const memory = mmap(nullptr, sizeof(layout), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EBB_ASSERT(memory != MAP_FAILED);
    layout_ = new (memory) layout;
  }
  void set(const input& bytes) {
    layout_->size_bytes = std::min(bytes.size(), input_bytes_max);
    std::copy_n(bytes.begin(), layout_->size_bytes, layout_->bytes);
    ++layout_->count;
  }
  std::size_t count() const { return layout_->count; }
  void write(const fs::path& path) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(layout_->bytes), static_cast<std::streamsize>(layout_->size_bytes));
  }

 private:
  struct layout {
    std::size_t count = 0;  // inputs so far
    std::size_t size_bytes = 0;
    std::uint8_t bytes[input_bytes_max];
  };
  layout* layout_;
};

// The files of the folder in the order of their names, after an empty input; a folder that is missing teaches nothing.
std::vector<input> read_corpus(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<input> corpus(1);
  std::transform(files.begin(), files.end(), std::back_inserter(corpus), read);
  std::printf("%zu files in %s, seed %llx\n", files.size(), folder.c_str(), static_cast<unsigned long long>(seed));
  return corpus;
}

void run(const input& bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

void run_corpus(shared_input& current, const fs::path& folder, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  const std::vector<input> corpus = read_corpus(folder);
  const auto run_kept = [&](const input& bytes) {
    current.set(bytes);
    run(bytes);
  };
  for (const input& bytes : corpus) run_kept(bytes);
  mutator mutations(corpus);
  while (std::chrono::steady_clock::now() < end) run_kept(mutations.next());
}

// The exit code of the program: 0 when the child has run everything and left in good order.
int watch(pid_t child, const shared_input& current, const fs::path& crash) {
  int status = 0;
  EBB_ASSERT(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    std::printf("%zu inputs, no crash\n", current.count());
    return 0;
  }
  current.write(crash);
  std::printf("input %zu ended the program; it is in %s\n", current.count(), crash.c_str());
  return 1;
}

int run_in_child(const fs::path& program, const fs::path& folder, std::chrono::seconds time) {
  shared_input current;
  const pid_t child = fork();
  EBB_ASSERT(child >= 0);
  if (child > 0) return watch(child, current, program.filename().string() + ".crash");
  run_corpus(current, folder, time);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (arguments.size() == 4 && arguments[1] == "--seconds") {
    return run_in_child(arguments[0], arguments[3], std::chrono::seconds(std::atoi(argv[2])));
  }
  std::for_each(arguments.begin() + 1, arguments.end(), [](const std::string& file) { run(read(file)); });
}
