// What following one job's file may cost in all, however often its parts are used again: a shell
// script or a Python file that would build more than any job needs ends in one line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {

// Nothing that follows a file goes on after it.
class BudgetError : public InputError {
 public:
  using InputError::InputError;
};

// One for an interpreter's whole life. Each call throws BudgetError, naming the file, once the
// whole is spent.
class Budget {
 public:
  explicit Budget(std::string file) : file_(std::move(file)) {}

  // Work that makes nothing: a token looked at, a variable asked for, a state of a pattern.
  void steps(std::uint64_t count) { spend(steps_, count, kMostSteps, "steps"); }
  // Texts that are made, copied, printed or parsed again.
  void bytes(std::uint64_t count) { spend(bytes_, count, kMostBytes, "bytes"); }
  // Words of a list, values, tokens: what takes memory of its own.
  void elements(std::uint64_t count) { spend(elements_, count, kMostElements, "elements"); }

  // How deep blocks, calls and values stand within each other: each holds one while it runs, so
  // that their sum is bounded and with it the stack of whoever follows them.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ <= kDeepest) return;
      --budget_.depth_;
      budget_.refuse("levels within each other");
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // each takes some 30 times as long there
  static constexpr std::uint64_t kMostSteps = 1'000'000;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kMostElements = 1 << 15;
#else
  static constexpr std::uint64_t kMostSteps = 20'000'000;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{128} << 20;
  static constexpr std::uint64_t kMostElements = 1 << 20;
#endif
  static constexpr int kDeepest = 500;

  void spend(std::uint64_t& spent, std::uint64_t count, std::uint64_t most, const char* of) const {
    if (count > most - spent) refuse(of);  // spent is never above most
    spent += count;
  }
  [[noreturn]] void refuse(const char* of) const;
  std::string file_;
  std::uint64_t steps_ = 0, bytes_ = 0, elements_ = 0;
  int depth_ = 0;
};

}  // namespace weir
