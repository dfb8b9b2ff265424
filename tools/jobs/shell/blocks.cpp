// Words that open and close, and what lies between them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/blocks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::array<std::string_view, 6> kOpens{"if", "case", "for", "while", "until", "{"};
constexpr std::array<std::string_view, 4> kCloses{"fi", "esac", "done", "}"};

constexpr std::size_t kDeepestBlocks = 64;

bool is_command(const ShellToken& token) { return token.kind == ShellKind::word && token.first; }

}  // namespace

bool ShellBlocks::opens(std::size_t i) const {
  return is_command(at(i)) && std::ranges::find(kOpens, at(i).text) != kOpens.end();
}

bool ShellBlocks::closes(std::size_t i) const {
  return is_command(at(i)) && std::ranges::find(kCloses, at(i).text) != kCloses.end();
}

ShellBlocks::ShellBlocks(std::string_view text, const std::string& file, Budget& budget)
    : file_(file) {
  budget.bytes(text.size());
  tokens_ = shell_tokens(text, file);
  budget.elements(tokens_.size());
  pair_blocks();
}

void ShellBlocks::pair_blocks() {
  close_.assign(size(), size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < size(); ++i) {
    if (opens(i)) {
      open.push_back(i);
      if (open.size() > kDeepestBlocks)
        fail(i, fmt::format("more than {} blocks within each other", kDeepestBlocks));
    } else if (closes(i) && !open.empty()) {
      close_[open.back()] = i;
      open.pop_back();
    }
  }
}

std::size_t ShellBlocks::close_of(std::size_t i, std::size_t end) const {
  if (close_[i] >= end) fail(i, fmt::format("{} is not closed", at(i).text));
  return close_[i];
}

std::size_t ShellBlocks::part_of(std::size_t i, std::size_t close,
                                 std::initializer_list<std::string_view> words) const {
  for (std::size_t j = i; j < close; ++j) {
    if (!is_command(at(j))) continue;
    if (std::ranges::find(words, at(j).text) != words.end()) return j;
    if (opens(j)) j = std::min(close_[j], close);  // what it holds is its own
  }
  return close;
}

std::size_t ShellBlocks::behind(std::size_t i, std::size_t end) const {
  if (opens(i)) return close_of(i, end) + 1;
  while (i < end && at(i).kind != ShellKind::operation) ++i;
  return i;
}

std::vector<ShellBranch> ShellBlocks::branches_of(std::size_t i, std::size_t close) const {
  std::vector<ShellBranch> branches;
  for (std::size_t part = i; part < close;) {
    ShellBranch branch{.otherwise = at(part).text == "else"};
    std::size_t then = part;
    if (!branch.otherwise) {
      then = part_of(part + 1, close, {"then"});
      if (then == close) fail(part, fmt::format("{} has no then", at(part).text));
      branch.condition = {part + 1, then};
    }
    part = part_of(then + 1, close, {"elif", "else"});
    branch.body = {then + 1, part};
    branches.push_back(std::move(branch));
  }
  return branches;
}

std::vector<ShellBranch> ShellBlocks::arms_of(std::size_t i, std::size_t close) const {
  std::vector<ShellBranch> arms;
  while (i < close) {
    ShellBranch arm;
    for (; i < close && !is_operation(i, ")"); ++i) {
      if (at(i).kind == ShellKind::word) arm.patterns.push_back(at(i).text);
    }
    if (i == close) break;
    const std::size_t begin = ++i;
    for (; i < close && !is_operation(i, ";;"); ++i) {
      if (opens(i)) i = std::min(close_[i], close - 1);
    }
    arm.body = {begin, i};
    arm.otherwise = arm.patterns == std::vector<std::string>{"*"};
    arms.push_back(std::move(arm));
    ++i;
  }
  return arms;
}

bool ShellBlocks::matters(ShellRange range) const {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const ShellToken& token = at(i);
    if (token.kind == ShellKind::array) return true;
    if (token.kind != ShellKind::word) continue;
    const std::size_t name = shell_name_length(token.text);
    const bool sets = name > 0 && (token.text.compare(name, 1, "=") == 0 ||
                                   token.text.compare(name, 2, "+=") == 0);
    if (sets || token.text.starts_with("--")) return true;
  }
  return false;
}

std::string ShellBlocks::shown(ShellRange range) const {
  std::string text;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const ShellToken& token = at(i);
    if (token.text == "\n" || token.text == ";") continue;
    if (token.kind == ShellKind::condition)
      text += fmt::format("[[ {} ]] ", fmt::join(token.elements, " "));
    else
      text += token.text + " ";
  }
  if (text.size() > 60) text = text.substr(0, 57) + "... ";
  if (!text.empty()) text.pop_back();
  return text;
}

void ShellBlocks::fail(std::size_t i, const std::string& message) const {
  throw InputError(file_, fmt::format("line {}", at(i).line), message);
}

}  // namespace weir
