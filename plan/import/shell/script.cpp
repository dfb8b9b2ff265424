// Following a script's commands.
// SPDX-License-Identifier: Apache-2.0
#include "plan/import/shell/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "plan/import/shell/blocks.hpp"
#include "plan/import/shell/condition.hpp"
#include "plan/import/shell/counting.hpp"
#include "plan/import/shell/slurm.hpp"
#include "plan/import/shell/tokens.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr int kMostSteps = 100'000;  // commands followed
constexpr int kDeepestRun = 24;      // functions and commands in quotes

using Status = std::optional<bool>;  // of a command, where it is known

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& set, std::string_view word) {
  return std::ranges::find(set, word) != set.end();
}
// Commands that follow a script on their input.
constexpr std::array<std::string_view, 6> kTakesScripts{"sbatch", "bash", "sh",
                                                        "srun",   "ssh",  "qsub"};
constexpr std::array<std::string_view, 5> kDeclares{"export", "declare", "local", "readonly",
                                                    "typeset"};
// Files that set up a machine rather than a job.
constexpr std::array<std::string_view, 5> kSetsUp{"activate", "conda", "bashrc", "profile",
                                                  "modules"};

bool holds_arguments(const std::string& text) {
  return text.starts_with("--") || text.find(" --") != text.npos || text.find("\n--") != text.npos;
}

// What all parts of a script share, those in quotes too.
struct ScriptState {
  ShellVariables& variables;
  const std::string& file;
  ShellScript& out;
  int steps = 0;
  int depth = 0;
  std::deque<std::vector<std::string>> parameters = {};  // that "set --" and shift gave
};

class ScriptRun : private ShellBlocks {
 public:
  ScriptRun(std::string_view text, ScriptState& state, std::vector<std::string> launcher = {})
      : ShellBlocks(text, state.file), s_(state), launcher_(std::move(launcher)) {}

  void whole() {
    run({0, size()});
    if (!s_.out.commands.empty() || functions_.empty()) return;
    // Nothing was started: the functions are called in ways that are not understood.
    ended_ = false;
    for (const auto& [name, body] : std::map(functions_)) call(body, {});
  }

 private:
  // Whether what is done there ends the script, functions called among it.
  bool ends_script(ShellRange range) const {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (opens(i)) {
        i = close_of(i, range.end);
        continue;
      }
      if (at(i).kind != ShellKind::word || !at(i).first) continue;
      if (at(i).text == "exit" || at(i).text == "return") return true;
      const auto function = functions_.find(at(i).text);
      if (function != functions_.end() && function->second.end < range.begin &&
          ends_script(function->second))
        return true;
    }
    return false;
  }
  void remark(std::size_t i, std::string text) const {
    for (const ShellRemark& earlier : s_.out.remarks) {
      if (earlier.line == at(i).line && earlier.text == text) return;
    }
    s_.out.remarks.push_back({at(i).line, std::move(text)});
  }

  // ---- commands one after the other -------------------------------------------------------------

  Status run(ShellRange range) {
    Status status = true;
    for (std::size_t i = range.begin; i < range.end && !ended_ && !returned_;) {
      if (at(i).kind == ShellKind::operation) {
        const bool and_then = at(i).text == "&&", or_else = at(i).text == "||";
        ++i;
        if (!and_then && !or_else) continue;
        while (i < range.end && is_operation(i, "\n")) ++i;
        if (i == range.end) break;
        // What is not known is taken to have gone well, and a script to have gone on.
        const ShellRange next{i, behind(i, range.end)};
        const bool skipped = and_then ? status == Status(false) || (!status && ends_script(next))
                                      : status != Status(false);
        if (and_then && tested_ && !status && !skipped && matters(next)) {
          remark(i,
                 fmt::format("{}: whether it is done is not known here; it is read", shown(next)));
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
  std::size_t command(std::size_t i, std::size_t end, Status& status) {
    const ShellToken& token = at(i);
    tested_ = token.kind == ShellKind::condition || token.kind == ShellKind::sum ||
              token.text == "[" || token.text == "test";
    if (token.kind == ShellKind::condition) {
      status = shell_condition(token.elements, s_.variables, true);
      return i + 1;
    }
    if (token.kind == ShellKind::sum) {
      const auto value = shell_count(token.text, s_.variables);
      status = value ? Status(*value != 0) : std::nullopt;
      return i + 1;
    }
    if (token.kind == ShellKind::word && token.first) {
      if (token.text == "!") {
        i = command(std::min(i + 1, end - 1), end, status);
        if (status) status = !*status;
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

  std::size_t function(std::size_t i, std::size_t end) {
    const std::string name = at(i).text;
    while (i < end && !is_word(i, "{")) ++i;
    if (i == end) return end;
    const std::size_t close = close_of(i, end);
    functions_[name] = {i + 1, close};
    return close + 1;
  }
  Status call(ShellRange body, const std::vector<std::string>& parameters) {
    if (s_.depth >= kDeepestRun) return std::nullopt;
    ++s_.depth;
    const auto* outer = s_.variables.parameters();
    s_.variables.set_parameters(&parameters);
    const Status status = run(body);
    s_.variables.set_parameters(outer);
    returned_ = false;
    --s_.depth;
    return status;
  }

  // ---- branches ---------------------------------------------------------------------------------

  std::size_t choice(std::size_t i, std::size_t close, Status& status) {
    const std::vector<ShellBranch> branches = branches_of(i, close);
    const ShellBranch* taken = nullptr;
    const ShellBranch* open = nullptr;  // the first that is not known and would not end the script
    bool known = true;
    for (const ShellBranch& branch : branches) {
      const Status holds = branch.otherwise ? Status(true) : run(branch.condition);
      if (!holds) {
        known = false;
        if (open == nullptr && !ends_script(branch.body)) open = &branch;
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
    status = taken != nullptr ? run(taken->body) : Status(true);
    return close + 1;
  }
  std::size_t cases(std::size_t i, std::size_t close) {
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
          return ::fnmatch(s_.variables.text(pattern).text.c_str(), value.text.c_str(), 0) == 0;
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

  static constexpr std::size_t kMostRounds = 256;

  std::size_t each(std::size_t i, std::size_t close) {
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
      run(body);
      return close + 1;
    }
    const std::string name = at(i + 1).text;
    const std::size_t started = s_.out.commands.size();
    for (std::size_t round = 0; round < over.words.size() && !ended_ && !returned_; ++round) {
      s_.variables.set_text(name, {over.words[round], over.known}, false);
      run(body);
      // One that starts commands is several jobs, of which the first is read.
      const bool again = over.known && s_.out.commands.size() == started && round < kMostRounds;
      if (again || round + 1 == over.words.size()) continue;
      if (matters({begin, close}))
        remark(i, fmt::format("a loop: read once, with {}={}", name, over.words[round]));
      break;
    }
    return close + 1;
  }
  // for ((begin; condition; step))
  void counted(std::size_t i, ShellRange body) {
    const std::string_view head = at(i + 1).text;
    const std::size_t first = head.find(';');
    const std::size_t second = first == head.npos ? first : head.find(';', first + 1);
    if (second == head.npos) return;
    static_cast<void>(shell_count(head.substr(0, first), s_.variables));
    const std::size_t started = s_.out.commands.size();
    for (std::size_t round = 0; round < kMostRounds && !ended_ && !returned_; ++round) {
      const auto holds = s_.variables.sum(head.substr(first + 1, second - first - 1));
      if (holds && *holds == 0) return;
      run(body);
      static_cast<void>(shell_count(head.substr(second + 1), s_.variables));
      if (holds && s_.out.commands.size() == started) continue;
      if (matters(body)) remark(i, "a loop: read once");
      return;
    }
  }
  std::size_t repeat(std::size_t i, std::size_t close) {
    const std::size_t begin = part_of(i + 1, close, {"do"});
    const Status holds = run({i + 1, begin});
    if (holds == Status(at(i).text == "while")) run({std::min(begin + 1, close), close});
    return close + 1;
  }

  // ---- one command ------------------------------------------------------------------------------

  // NAME=..., NAME+=...
  bool assign(const ShellToken& token) {
    std::size_t length = shell_name_length(token.text);
    // NAME[key]=...: an element by its own name
    if (length > 0 && token.text.compare(length, 1, "[") == 0) {
      const std::size_t bracket = token.text.find(']', length);
      if (bracket != std::string::npos) length = bracket + 1;
    }
    const bool more = token.text.compare(length, 2, "+=") == 0;
    if (length == 0 || (!more && token.text.compare(length, 1, "=") != 0)) return false;
    const std::string_view name = std::string_view(token.text).substr(0, length);
    if (token.kind == ShellKind::array) {
      ShellWords value;
      for (const std::string& raw : token.elements) {
        const std::size_t key = raw.starts_with('[') ? raw.find("]=") : std::string::npos;
        if (key != std::string::npos) {  // ([key]=value ...)
          s_.variables.set_text(fmt::format("{}{}", name, raw.substr(0, key + 1)),
                                s_.variables.text(raw.substr(key + 2)), false);
          continue;
        }
        ShellWords one = s_.variables.words(raw);
        value.known = value.known && one.known;
        for (std::string& word : one.words) value.words.push_back(std::move(word));
      }
      s_.variables.set_array(name, std::move(value), more);
    } else {
      const std::string_view raw = std::string_view(token.text).substr(length + (more ? 2 : 1));
      s_.variables.set_text(name, s_.variables.text(raw), more);
    }
    return true;
  }
  std::size_t simple(std::size_t i, std::size_t end, Status& status) {
    std::size_t last = i;
    while (last < end && at(last).kind != ShellKind::operation) ++last;
    status = true;
    const std::size_t begin = i;
    while (i < last && assign(at(i))) ++i;
    if (i == last) return last;
    if (at(i).kind == ShellKind::word && is_in(kDeclares, at(i).text)) {
      for (++i; i < last; ++i) assign(at(i));
      return last;
    }
    if (at(i).text == "[" || at(i).text == "test") {
      std::vector<std::string> raw;
      for (std::size_t j = i + 1; j < last && at(j).text != "]"; ++j) raw.push_back(at(j).text);
      status = shell_condition(raw, s_.variables, false);
      return last;
    }
    std::vector<std::string> words;
    const ShellToken* here = nullptr;
    for (; i < last; ++i) {
      if (at(i).kind == ShellKind::here) here = &at(i);
      if (at(i).kind != ShellKind::word) continue;
      ShellWords more = s_.variables.words(at(i).text);
      for (std::string& word : more.words) words.push_back(std::move(word));
    }
    if (here != nullptr && takes(words, *here)) return last;
    status = started(begin, std::move(words));
    return last;
  }
  // What a command makes of a here-document: a shell follows it, read puts it into a variable.
  bool takes(const std::vector<std::string>& words, const ShellToken& here) {
    if (words.empty()) return false;
    const std::string_view name = std::string_view(words[0]).substr(words[0].rfind('/') + 1);
    const bool quoted = !here.elements.empty();
    if (name == "read" && shell_name_length(words.back()) == words.back().size()) {
      s_.variables.set_text(words.back(),
                            quoted ? ShellText{here.text} : s_.variables.text(here.text), false);
      return true;
    }
    if (!is_in(kTakesScripts, name)) return false;
    std::string text;
    for (std::size_t i = 0; i < here.text.size(); ++i) {
      const bool escapes = !quoted && here.text[i] == '\\' && i + 1 < here.text.size() &&
                           std::string_view("$`\\").find(here.text[i + 1]) != std::string::npos;
      text += here.text[escapes ? ++i : i];
    }
    static_cast<void>(inner(text, launcher_, words));
    return true;
  }
  Status started(std::size_t i, std::vector<std::string> words) {
    if (words.empty()) return true;
    const std::string& name = words[0];
    if (name == "true" || name == ":") return true;
    if (name == "false") return false;
    if (name == "exit") {
      ended_ = true;
      return true;
    }
    if (name == "return") {
      returned_ = true;
      return true;
    }
    if (name == "let") {
      for (std::size_t j = 1; j < words.size(); ++j)
        static_cast<void>(shell_count(words[j], s_.variables));
      return true;
    }
    if (name == "set" && words.size() > 1 && words[1] == "--") {
      s_.parameters.emplace_back(words.begin() + 2, words.end());
      s_.variables.set_parameters(&s_.parameters.back());
      return true;
    }
    if (name == "shift" && s_.variables.parameters() != nullptr) {
      const std::vector<std::string>& now = *s_.variables.parameters();
      const std::int64_t by = words.size() > 1 ? s_.variables.sum(words[1]).value_or(1) : 1;
      const auto gone = std::clamp<std::int64_t>(by, 0, std::ssize(now));
      s_.parameters.emplace_back(now.begin() + gone, now.end());
      s_.variables.set_parameters(&s_.parameters.back());
      return true;
    }
    if (name == "source" || name == ".") {
      if (words.size() > 1) sourced(i, words[1]);
      return std::nullopt;
    }
    const auto function = functions_.find(name);
    if (function != functions_.end())
      return call(function->second, {words.begin() + 1, words.end()});
    if (name == "eval" && words.size() > 1) {
      words.erase(words.begin());
      const std::string text = fmt::format("{}", fmt::join(words, " "));
      return inner(text, launcher_, words);
    }
    // A shell's -c is a script; a Python's is not.
    for (std::size_t j = 0; j + 1 < words.size(); ++j) {
      const bool shell = j > 0 && (words[j - 1].ends_with("sh"));
      if (!shell || (words[j] != "-c" && words[j] != "-lc" && words[j] != "-xc")) continue;
      std::vector<std::string> launcher = launcher_;
      launcher.insert(launcher.end(), words.begin(), words.begin() + static_cast<long>(j) + 1);
      return inner(words[j + 1], std::move(launcher), words);
    }
    words.insert(words.begin(), launcher_.begin(), launcher_.end());
    s_.out.commands.push_back(std::move(words));
    return std::nullopt;
  }
  void sourced(std::size_t i, const std::string& path) {
    const bool sets_up = std::ranges::any_of(
        kSetsUp, [&](std::string_view part) { return path.find(part) != path.npos; });
    if (!sets_up)
      remark(i, fmt::format("source {}: not followed, what it sets is not known", path));
  }
  // A script in a word. One that is none is taken as words.
  Status inner(const std::string& text, std::vector<std::string> launcher,
               const std::vector<std::string>& words) {
    if (s_.depth < kDeepestRun) {
      ++s_.depth;
      try {
        ScriptRun(text, s_, std::move(launcher)).whole();
        --s_.depth;
        return std::nullopt;
      } catch (const InputError&) {
        --s_.depth;
      }
    }
    s_.out.commands.push_back(words);
    return std::nullopt;
  }

  ScriptState& s_;
  std::vector<std::string> launcher_;  // words that start what is read here, before each command
  std::map<std::string, ShellRange, std::less<>> functions_;
  bool ended_ = false, returned_ = false;
  bool tested_ = false;  // the last command was a condition
};

}  // namespace

ShellScript read_script(const std::string& text, const std::string& file,
                        const ShellEnvironment& environment) {
  ShellScript script;
  const SlurmRequest slurm = slurm_request(text);
  script.nodes = slurm.nodes;
  script.gpus = slurm.devices();
  // What the user's shell has counts over what Slurm would set.
  ShellEnvironment known = slurm.variables();
  const ShellEnvironment by_slurm = known;
  for (const auto& [name, value] : environment) known[name] = value;
  ShellVariables variables(known);
  ScriptState state{variables, file, script};
  ScriptRun(text, state).whole();
  for (const auto& [name, variable] : variables.all()) {
    if (variable.used) continue;
    if (std::ranges::any_of(variable.words, holds_arguments))
      script.unused.push_back(variable.words);
  }
  for (const std::string& name : variables.taken()) {
    const auto same = by_slurm.find(name);
    if (same == by_slurm.end() || environment.contains(name)) script.taken.push_back(name);
  }
  return script;
}

}  // namespace weir
