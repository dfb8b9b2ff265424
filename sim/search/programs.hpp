// What candidates of one shape share: the schedule of (name, K, v, M, S), the fewest receive slots,
// and for each way to lower it the program and its compiled form. Each is made once, by the first
// thread that asks; others of the same shape wait for it. Beyond a number of bytes the shapes that
// were not asked for longest are forgotten, and made again where they are wanted again: that costs
// time and changes nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "plan/job/plan.hpp"
#include "plan/program/lower.hpp"
#include "sim/engine/compiled_program.hpp"

namespace weir {

// Many threads may ask at once; references hold as long as the shape does.
class ShapePrograms {
 public:
  // name, K, v, M, slices
  using Key = std::tuple<std::string, int, int, int, int>;

  // Precondition: there is such a schedule.
  explicit ShapePrograms(Key key) : key_(std::move(key)) {}

  [[nodiscard]] const Schedule& schedule();
  // fewest_slots() from `at_least` up.
  [[nodiscard]] std::int32_t slots(std::int32_t at_least);
  [[nodiscard]] const Program& program(const LoweringOptions& options);
  // Null where a program so lowered cannot be compiled.
  [[nodiscard]] const CompiledProgram* compiled(const LoweringOptions& options);
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // about

 private:
  struct Made {
    Program program;
    std::optional<std::variant<CompiledProgram, NotCompiled>> compiled;
  };
  struct Before {
    bool operator()(const LoweringOptions& a, const LoweringOptions& b) const;
  };
  [[nodiscard]] Made& made(const LoweringOptions& options);

  Key key_;
  std::once_flag once_;
  Schedule schedule_;
  std::mutex mutex_;                            // guards both maps
  std::map<std::int32_t, std::int32_t> slots_;  // by the fewest that are asked for
  std::map<LoweringOptions, Made, Before> made_;
  std::atomic<std::size_t> bytes_ = 0;
};

class Programs {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{512} << 20;
  // Above this by no more than the shapes in use.
  explicit Programs(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Shared: a shape that is forgotten lives until the threads that use it are done. Precondition:
  // the plan's schedule can be made.
  [[nodiscard]] std::shared_ptr<ShapePrograms> of(const Plan& plan);
  [[nodiscard]] std::size_t size();   // shapes kept
  [[nodiscard]] std::size_t bytes();  // of them

 private:
  struct Kept {
    std::shared_ptr<ShapePrograms> programs;
    std::int64_t asked = 0;  // the number of the last question for it
  };
  [[nodiscard]] std::size_t kept_bytes() const;
  void forget();

  const std::size_t most_bytes_;
  std::mutex mutex_;  // guards what follows
  std::map<ShapePrograms::Key, Kept> shapes_;
  std::int64_t asked_ = 0;
};

}  // namespace weir
