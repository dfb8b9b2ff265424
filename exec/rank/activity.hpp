// What each rank of this process is at: the action in hand and since when, for whoever watches that
// none stands still. One writer a rank, any reader.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "exec/rank/last_action.hpp"
#include "plan/program/program.hpp"
#include "plan/words/units.hpp"

namespace weir {

class Activity {
 public:
  explicit Activity(int ranks);

  // Before the rank's first action: each is written down where it outlives this process.
  void write_down(Rank rank, std::unique_ptr<LastAction> line);
  // The run has ended well.
  void forget_lines();

  void begin(Rank rank, OperationId id, std::uint32_t step, std::int64_t now_ns);
  void end(Rank rank);

  struct Action {
    std::int32_t rank = 0;
    OperationId id;
    std::uint32_t step = 0;
    std::int64_t since_ns = 0;
  };
  // The one that has been at its action for longest; nothing where all rest or wait.
  [[nodiscard]] std::optional<Action> longest() const;

 private:
  struct Slot {
    std::atomic<std::int64_t> since_ns{0};  // 0: at none; written last, read first
    std::atomic<std::int64_t> id{0};
    std::atomic<std::uint32_t> step{0};
  };
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<LastAction>> lines_;  // by rank; null: not written down
};

// "rank 1, step 3, 1F2"
[[nodiscard]] std::string place_of(const Program& program, Rank rank, std::uint32_t step,
                                   OperationId id);

// A thread that looks at them until it dies. `hangs` is told of an action that takes longer than
// `limit`, once, in one line; it ends the process: what stands still cannot be ended otherwise.
class Watchdog {
 public:
  struct Options {
    const Program& program;
    const Activity& activity;
    Seconds limit{0};
    std::int64_t (*now)();
    std::function<void(const std::string& line)> hangs;
  };
  explicit Watchdog(Options options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  void watch();

  Options options_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace weir
