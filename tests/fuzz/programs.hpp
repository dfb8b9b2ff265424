// Programs for the two interpreters behind `weir plan --from`, grown at random from a small grammar
// each: what launch scripts and recipes are written with, and what they never should be: loops that
// do not end, functions that call each other, texts and lists that double, objects that hold
// themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>

namespace weir::fuzz {

// Choices by seed alone, and how deep what is grown may still be.
class Growth {
 public:
  explicit Growth(std::uint64_t seed) : random_(seed) {}
  // From 0 on, less than `count`.
  std::size_t below(std::size_t count) { return random_() % count; }
  bool often() { return below(4) != 0; }
  bool seldom() { return below(8) == 0; }
  std::string any(std::initializer_list<std::string_view> of) {
    return std::string(of.begin()[below(of.size())]);
  }
  [[nodiscard]] bool deep() const { return depth_ >= kDeepest; }

  // While one lives, what is grown is one deeper.
  class Level {
   public:
    explicit Level(Growth& growth) : growth_(growth) { ++growth_.depth_; }
    ~Level() { --growth_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Growth& growth_;
  };

 private:
  static constexpr int kDeepest = 6;
  std::mt19937_64 random_;
  int depth_ = 0;
};

// A whole job, which ends as its tool's jobs do: with a trainer's command line, or with functions
// that give a configuration. A seed's program is another by another compiler: the order in which
// arguments are grown is its own.
[[nodiscard]] std::string shell_program(std::uint64_t seed);
[[nodiscard]] std::string torchtitan_program(std::uint64_t seed);
[[nodiscard]] std::string bridge_program(std::uint64_t seed);

}  // namespace weir::fuzz
