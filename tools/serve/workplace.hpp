// The folder that is served, and what its requests share: where their files go, and how many of
// them compute at once: one, beside it one search, and one that reads the runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plan/text/strict_json.hpp"

namespace weir {

// Below the folder that is served: all that requests write goes there.
inline constexpr std::string_view kWorkFolder = "weir-serve";

// Another request computes, and does not end soon.
class Busy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file as it was when it was read, by when it was last written.
using FileSeen = std::pair<std::filesystem::path, std::filesystem::file_time_type>;

// A run as a row, and what it was made of: the run's files and the costs that forecast it. Costs
// that were learnt anew forecast it otherwise.
struct RunRow {
  std::vector<FileSeen> seen;
  Json row;
};

struct Workplace {
  // Paths are relative to it: it is the current folder.
  std::filesystem::path folder = kWorkFolder;
  std::timed_mutex computing;            // one request at a time, but for the next two
  std::timed_mutex searching;            // one search at a time
  std::atomic<bool> stop_search{false};  // what was found so far is its result
  std::atomic<bool> ended{false};        // the server's end
  std::mutex reading_runs;               // over `runs`
  std::map<std::string, RunRow> runs;    // by folder
};

// Waits for the request that computes. Throws Busy where that takes long.
[[nodiscard]] std::unique_lock<std::timed_mutex> turn(Workplace& workplace);

// A new folder in it: "weir-serve/7".
[[nodiscard]] std::filesystem::path new_job_folder(const Workplace& workplace);

// What `work` answers, given a new folder; where it throws nothing is left of that.
template <class Work>
[[nodiscard]] auto in_new_folder(const Workplace& workplace, const Work& work) {
  const std::filesystem::path folder = new_job_folder(workplace);
  try {
    return work(folder);
  } catch (...) {
    std::error_code none;
    std::filesystem::remove_all(folder, none);
    throw;
  }
}

// A file's name as it is kept: letters, digits, '.', '-' and '_', 80 of them at most.
[[nodiscard]] std::string kept_name(std::string_view name);

}  // namespace weir
