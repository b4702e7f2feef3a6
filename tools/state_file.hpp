// tools/state_file.hpp: the ledger's state on disk: one small file, replaced as a whole at each change.
#pragma once
#include "bus/ledger_state.hpp"
#include "config/result.hpp"
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace ebb::tools {

// $XDG_STATE_HOME/ebb, else $HOME/.local/state/ebb, else /var/lib/ebb.
std::filesystem::path default_state_folder();

class state_file {
 public:
  // Takes the folder for this process, creating it with mode 0700. Errors: file_unwritable; busy (another daemon has it).
  static result<std::unique_ptr<state_file>> open(const std::filesystem::path& folder);
  ~state_file();
  state_file(const state_file&) = delete;
  state_file& operator=(const state_file&) = delete;

  const std::filesystem::path& folder() const noexcept { return folder_; }

  // As it was written last; none if it never was. What is no state is moved aside. Errors: corrupt (with where it went);
  // file_unreadable (what it says is not known, so nothing may be written in its place), file_unwritable (it cannot be moved aside).
  result<std::optional<bus::ledger_state>> read() const;

  // Keeps a state of so many cards, which this run cannot use, from being written over: moved aside, to where a state of another number
  // of cards is not. Returns `why` with where it went. Errors: file_unwritable.
  result<error> set_aside(error why, std::size_t cards) const;

  // Returns when it is on the disk: a reader sees the old state or the new one, and never a part. Errors: file_unwritable.
  result<void> write(const bus::ledger_state& what) const;

 private:
  state_file(std::filesystem::path folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::filesystem::path folder_;
  int lock_;  // a locked file, which the system unlocks when this process ends, however it ends
};

}  // namespace ebb::tools
