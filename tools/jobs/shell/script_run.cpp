// Following a script: its branches, loops and functions.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/script_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "tools/jobs/shell/condition.hpp"
#include "tools/jobs/shell/counting.hpp"
#include "tools/jobs/shell/glob.hpp"

namespace weir {
namespace {

constexpr int kMostSteps = 100'000;  // commands followed
constexpr std::size_t kMostRemarks = 200;

}  // namespace

void ScriptRun::whole() {
  s_.variables.set_printed([this](std::string_view command) { return printed(command); });
  follow();
  if (!s_.out.commands.empty() || s_.functions.empty()) return;
  // Nothing was started: the functions are called in ways that are not understood.
  s_.ended = false;
  for (const auto& [name, function] : std::map(s_.functions)) call(function, {});
}

bool ScriptRun::ends_script(ShellRange range, bool calls) const {
  const Budget::Level level(s_.variables.budget());
  for (std::size_t i = range.begin; i < range.end; ++i) {
    s_.variables.budget().steps(1);
    if (opens(i)) {
      i = close_of(i, range.end);
      continue;
    }
    if (at(i).kind != ShellKind::word || !at(i).first) continue;
    if (at(i).text == "exit" || at(i).text == "return") return true;
    const auto function = s_.functions.find(at(i).text);
    if (function == s_.functions.end() || !calls) continue;
    const auto& [in, body] = function->second;
    const bool earlier = in != this || body.end < range.begin;
    if (earlier && in->ends_script(body, in == this)) return true;
  }
  return false;
}

void ScriptRun::remark(std::size_t i, std::string text) const {
  const bool own = file_ == s_.file;
  ShellRemark said{own ? at(i).line : 0,
                   own ? std::move(text) : fmt::format("{} line {}: {}", file_, at(i).line, text)};
  for (const ShellRemark& earlier : s_.out.remarks) {
    if (earlier.line == said.line && earlier.text == said.text) return;
  }
  if (s_.out.remarks.size() < kMostRemarks) s_.out.remarks.push_back(std::move(said));
}

// ---- commands one after the other -------------------------------------------------------------

ShellStatus ScriptRun::run(ShellRange range) {
  const Budget::Level level(s_.variables.budget());
  ShellStatus status = true;
  for (std::size_t i = range.begin; i < range.end && !leaves();) {
    if (at(i).kind == ShellKind::operation) {
      const bool and_then = at(i).text == "&&", or_else = at(i).text == "||";
      ++i;
      if (!and_then && !or_else) continue;
      while (i < range.end && is_operation(i, "\n")) ++i;
      if (i == range.end) break;
      // What is not known is taken to have gone well, and a script to have gone on.
      const ShellRange next{i, behind(i, range.end)};
      const bool skipped = and_then ? status == ShellStatus(false) || (!status && ends_script(next))
                                    : status != ShellStatus(false);
      if (and_then && tested_ && !status && !skipped && matters(next)) {
        remark(i, fmt::format("{}: whether it is done is not known here; it is read", shown(next)));
      }
      if (skipped) i = std::max(next.end, i + 1);
      continue;
    }
    if (++s_.steps > kMostSteps)
      fail(i, fmt::format("more than {} commands are followed", kMostSteps));
    i = command(i, range.end, status);
  }
  return status;
}

std::size_t ScriptRun::command(std::size_t i, std::size_t end, ShellStatus& status) {
  const ShellToken& token = at(i);
  tested_ = token.kind == ShellKind::condition || token.kind == ShellKind::sum ||
            token.text == "[" || token.text == "test";
  if (token.kind == ShellKind::condition) {
    status = shell_condition(token.elements, s_.variables, true);
    return i + 1;
  }
  if (token.kind == ShellKind::sum) {
    const auto value = shell_count(token.text, s_.variables);
    status = value ? ShellStatus(*value != 0) : std::nullopt;
    return i + 1;
  }
  if (token.kind == ShellKind::word && token.first) {
    if (token.text == "!") {
      bool other = false;
      for (; i < end && is_word(i, "!"); ++i) other = !other;
      // Of no command, in a script that ends or breaks off there.
      if (i == end || at(i).kind == ShellKind::operation) {
        status.reset();
        return i;
      }
      i = command(i, end, status);
      if (status && other) status = !*status;
      return i;
    }
    if (token.text == "function" && i + 1 < end) return function(i + 1, end);
    if (i + 2 < end && is_operation(i + 1, "(") && is_operation(i + 2, ")"))
      return function(i, end);
    if (token.text == "if") return choice(i, close_of(i, end), status);
    if (token.text == "case") return cases(i, close_of(i, end));
    if (token.text == "for") return each(i, close_of(i, end));
    if (token.text == "while" || token.text == "until") return repeat(i, close_of(i, end));
    if (token.text == "{") {
      const std::size_t close = close_of(i, end);
      status = run({i + 1, close});
      return close + 1;
    }
  }
  return simple(i, end, status);
}

// ---- functions --------------------------------------------------------------------------------

std::size_t ScriptRun::function(std::size_t i, std::size_t end) {
  const std::string name = at(i).text;
  while (i < end && !is_word(i, "{")) ++i;
  if (i == end) return end;
  const std::size_t close = close_of(i, end);
  s_.functions[name] = {this, {i + 1, close}};
  return close + 1;
}

ShellStatus ScriptRun::call(const ShellFunction& function,
                            const std::vector<std::string>& parameters) {
  if (s_.depth >= kDeepestRun) return std::nullopt;
  ++s_.depth;
  const auto* outer = s_.variables.parameters();
  s_.variables.set_parameters(&parameters);
  const ShellStatus status = function.in->body(function.body);
  s_.variables.set_parameters(outer);
  s_.returned = false;
  --s_.depth;
  return status;
}

// ---- branches ---------------------------------------------------------------------------------

namespace {

// NAME of a condition that asks for nothing but whether a variable is empty: [ -z "$NAME" ].
std::string tested_for_nothing(const std::string& condition) {
  std::istringstream words(condition);
  std::string open, option, operand, close, more;
  words >> open >> option >> operand >> close >> more;
  const bool brackets = (open == "[" && close == "]") || (open == "[[" && close == "]]");
  if ((!brackets && !(open == "test" && close.empty())) || option != "-z" || !more.empty())
    return "";
  std::erase(operand, '"');
  if (!operand.starts_with("$")) return "";
  const bool braced = operand.starts_with("${") && operand.ends_with("}");
  return braced ? operand.substr(2, operand.size() - 3) : operand.substr(1);
}

}  // namespace

std::size_t ScriptRun::choice(std::size_t i, std::size_t close, ShellStatus& status) {
  const std::vector<ShellBranch> branches = branches_of(i, close);
  const ShellBranch* taken = nullptr;
  const ShellBranch* open = nullptr;  // the first that is not known and would not end the script
  bool known = true;
  for (const ShellBranch& branch : branches) {
    const ShellStatus holds = branch.otherwise ? ShellStatus(true) : run(branch.condition);
    if (!holds) {
      const bool goes_on = !ends_script(branch.body);
      // What stands there is what the script takes where its user says nothing.
      if (goes_on && !s_.unfollowed &&
          s_.variables.suppose_empty(tested_for_nothing(shown(branch.condition)))) {
        taken = &branch;
        break;
      }
      known = false;
      if (open == nullptr && goes_on) open = &branch;
    } else if (*holds && !(branch.otherwise && !known && ends_script(branch.body))) {
      taken = &branch;
      break;
    }
  }
  if (taken == nullptr) taken = open;
  if (!known && matters({i, close})) {
    const std::string which = taken == nullptr   ? "nothing of it is read"
                              : taken->otherwise ? "its else is read"
                                                 : fmt::format("the lines from {} are read",
                                                               at(taken->body.begin).line + 1);
    remark(i, fmt::format("if {}: not known here; {}", shown(branches[0].condition), which));
  }
  status = taken != nullptr ? run(taken->body) : ShellStatus(true);
  return close + 1;
}

std::size_t ScriptRun::cases(std::size_t i, std::size_t close) {
  if (i + 2 >= close) return close + 1;
  const ShellText value = s_.variables.text(at(i + 1).text);
  const std::vector<ShellBranch> arms = arms_of(i + 3, close);
  const ShellBranch* taken = nullptr;
  const auto take = [&](auto&& fits) {
    const auto found = std::ranges::find_if(arms, fits);
    if (taken == nullptr && found != arms.end()) taken = &*found;
  };
  if (value.known) {
    take([&](const ShellBranch& arm) {
      return std::ranges::any_of(arm.patterns, [&](const std::string& pattern) {
        const ShellText filled = s_.variables.text(pattern);
        return Glob(filled.text, s_.variables.budget()).matches(value.text);
      });
    });
  } else {
    take([&](const ShellBranch& arm) { return arm.otherwise && !ends_script(arm.body); });
    take([&](const ShellBranch& arm) { return !ends_script(arm.body); });
    if (taken != nullptr && matters({i, close})) {
      remark(i, fmt::format("case {}: not known here; {} is read", at(i + 1).text,
                            fmt::join(taken->patterns, "|")));
    }
  }
  if (taken != nullptr) run(taken->body);
  return close + 1;
}

// ---- loops ------------------------------------------------------------------------------------

std::size_t ScriptRun::each(std::size_t i, std::size_t close) {
  const std::size_t begin = part_of(i + 1, close, {"do"});
  ShellWords over;
  for (std::size_t j = i + 3; j < begin; ++j) {
    if (at(j).kind != ShellKind::word) continue;
    ShellWords more = s_.variables.words(at(j).text);
    over.known = over.known && more.known;
    for (std::string& word : more.words) over.words.push_back(std::move(word));
  }
  const ShellRange body{std::min(begin + 1, close), close};
  if (i + 1 < begin && at(i + 1).kind == ShellKind::sum) {
    counted(i, body);
    return close + 1;
  }
  const bool named = i + 1 < begin && at(i + 1).kind == ShellKind::word;
  if (!named || over.words.empty()) {
    static_cast<void>(goes_on(body));
    return close + 1;
  }
  const std::string name = at(i + 1).text;
  const std::size_t started = s_.out.commands.size();
  for (std::size_t round = 0; round < over.words.size() && !leaves(); ++round) {
    s_.variables.set_text(name, {over.words[round], over.known}, false);
    if (!goes_on(body)) break;
    // One that starts commands is several jobs, of which the first is read.
    const bool again = over.known && only_sets(started) && round < kMostRounds;
    if (again || round + 1 == over.words.size()) continue;
    if (matters({begin, close}))
      remark(i, fmt::format("a loop: read once, with {}={}", name, over.words[round]));
    break;
  }
  return close + 1;
}

void ScriptRun::counted(std::size_t i, ShellRange body) {
  const std::string_view head = at(i + 1).text;
  const std::size_t first = head.find(';');
  const std::size_t second = first == head.npos ? first : head.find(';', first + 1);
  if (second == head.npos) return;
  static_cast<void>(shell_count(head.substr(0, first), s_.variables));
  const std::size_t started = s_.out.commands.size();
  for (std::size_t round = 0; round < kMostRounds && !leaves(); ++round) {
    const auto holds = s_.variables.sum(head.substr(first + 1, second - first - 1));
    if (holds && *holds == 0) return;
    if (!goes_on(body)) return;
    static_cast<void>(shell_count(head.substr(second + 1), s_.variables));
    if (holds && only_sets(started)) continue;
    if (matters(body)) remark(i, "a loop: read once");
    return;
  }
}

std::size_t ScriptRun::repeat(std::size_t i, std::size_t close) {
  const std::size_t begin = part_of(i + 1, close, {"do"});
  const ShellRange condition{i + 1, begin}, body{std::min(begin + 1, close), close};
  bool once = false;  // its body has started a command
  for (std::size_t round = 0; round < kMostRounds && !leaves(); ++round) {
    const ShellStatus holds = run(condition);
    if (holds == ShellStatus(at(i).text != "while")) return close + 1;
    if (!holds || once) {
      const char* const read = round == 0 ? "its lines are not read" : "it is read no further";
      if (matters({i, close}))
        remark(i, fmt::format("{} {}: {}; {}", at(i).text, shown(condition),
                              once ? "starts a command again" : "not known here", read));
      return close + 1;
    }
    const std::size_t started = s_.out.commands.size();
    if (!goes_on(body)) return close + 1;
    once = !only_sets(started);
  }
  if (!leaves())
    remark(i, fmt::format("{} {}: read {} times", at(i).text, shown(condition), kMostRounds));
  return close + 1;
}

bool ScriptRun::goes_on(ShellRange body) {
  run(body);
  if (s_.left == 0) return true;
  return --s_.left == 0 && std::exchange(s_.again, false);
}

}  // namespace weir
