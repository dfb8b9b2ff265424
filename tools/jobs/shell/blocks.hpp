// Which words of a script belong together: what if, case, for, while and { hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tools/jobs/bounds/budget.hpp"
#include "tools/jobs/shell/tokens.hpp"

namespace weir {

// Tokens [begin, end).
struct ShellRange {
  std::size_t begin = 0, end = 0;
};
// if, elif, else; or an arm of a case.
struct ShellBranch {
  ShellRange condition;
  std::vector<std::string> patterns;
  ShellRange body;
  bool otherwise = false;  // else, *)
};

class ShellBlocks {
 public:
  // `file` names the script in messages and outlives this. A text that is read again costs its
  // tokens again. Throws InputError where blocks stand too deep within each other.
  ShellBlocks(std::string_view text, const std::string& file, Budget& budget);

  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  [[nodiscard]] const ShellToken& at(std::size_t i) const { return tokens_[i]; }
  [[nodiscard]] bool is_word(std::size_t i, std::string_view text) const {
    return at(i).kind == ShellKind::word && at(i).first && at(i).text == text;
  }
  [[nodiscard]] bool is_operation(std::size_t i, std::string_view text) const {
    return at(i).kind == ShellKind::operation && at(i).text == text;
  }
  [[nodiscard]] bool opens(std::size_t i) const;
  [[nodiscard]] bool closes(std::size_t i) const;

  // The word that closes what `i` opens. Throws InputError where none does before `end`.
  [[nodiscard]] std::size_t close_of(std::size_t i, std::size_t end) const;
  // The first of `words` from `i` on that belongs to what holds `i`; else `close`.
  [[nodiscard]] std::size_t part_of(std::size_t i, std::size_t close,
                                    std::initializer_list<std::string_view> words) const;
  // Behind a command and all that it holds.
  [[nodiscard]] std::size_t behind(std::size_t i, std::size_t end) const;
  // Of the if at `i`, in order. Throws InputError where one has no then.
  [[nodiscard]] std::vector<ShellBranch> branches_of(std::size_t i, std::size_t close) const;
  // Of a case, whose first pattern is at `i`.
  [[nodiscard]] std::vector<ShellBranch> arms_of(std::size_t i, std::size_t close) const;
  // Whether following it or not makes a difference to arguments.
  [[nodiscard]] bool matters(ShellRange range) const;
  // Its words on one line, cut to 60 characters.
  [[nodiscard]] std::string shown(ShellRange range) const;
  // Throws InputError with the line of `i`.
  [[noreturn]] void fail(std::size_t i, const std::string& message) const;

 private:
  void pair_blocks();

  const std::string& file_;
  std::vector<ShellToken> tokens_;
  std::vector<std::size_t> close_;  // of each token that opens a block: the one that closes it
};

}  // namespace weir
