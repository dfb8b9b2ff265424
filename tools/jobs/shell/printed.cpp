// Commands that only print, and what a script's "$(...)" makes of them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/printed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/shell/script_run.hpp"

namespace weir {
namespace {

// seq LAST, seq FIRST LAST, seq FIRST STEP LAST, of whole numbers.
std::optional<std::string> numbers(const std::vector<std::string>& command, Budget& budget) {
  std::vector<std::int64_t> given;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const auto number = whole_number<std::int64_t>(command[i]);
    if (!number || *number > (1 << 30) || *number < -(1 << 30)) return std::nullopt;
    given.push_back(*number);
  }
  if (given.empty() || given.size() > 3) return std::nullopt;
  const std::int64_t first = given.size() > 1 ? given[0] : 1;
  const std::int64_t step = given.size() > 2 ? given[1] : 1;
  std::string text;
  if (step == 0) return std::nullopt;
  for (std::int64_t n = first; step > 0 ? n <= given.back() : n >= given.back(); n += step) {
    budget.elements(1);
    text += fmt::format("{}\n", n);
  }
  return text;
}

class Format {
 public:
  Format(const std::vector<std::string>& words, std::size_t first)
      : words_(words), format_(words[first]), next_(first + 1) {}

  // Once through the format; false: it has a conversion that is not known here.
  bool once(std::string& text) {
    for (std::size_t at = 0; at < format_.size(); ++at) {
      const char c = format_[at];
      const char next = at + 1 < format_.size() ? format_[at + 1] : '\0';
      if (c == '\\' && next != '\0') {
        text += next == 'n' ? '\n' : next == 't' ? '\t' : next;
        ++at;
      } else if (c != '%') {
        text += c;
      } else if (next == '%') {
        text += '%';
        ++at;
      } else if (next == 's' || next == 'd' || next == 'i' || next == 'b') {
        text += next_ < words_.size() ? words_[next_++] : next == 's' || next == 'b' ? "" : "0";
        ++at;
      } else {
        return false;
      }
    }
    return true;
  }
  bool is_done() const { return next_ >= words_.size(); }
  bool takes() const { return format_.find('%') != std::string::npos; }

 private:
  const std::vector<std::string>& words_;
  const std::string& format_;
  std::size_t next_;
};

}  // namespace

std::optional<std::string> shell_printf(const std::vector<std::string>& words, std::size_t first,
                                        Budget& budget) {
  if (first >= words.size()) return std::nullopt;
  Format format(words, first);
  std::string text;
  do {
    const std::size_t before = text.size();
    if (!format.once(text)) return std::nullopt;
    budget.bytes(text.size() - before);
    budget.steps(words[first].size());
  } while (!format.is_done() && format.takes());
  return text;
}

std::optional<std::string> shell_output(const std::vector<std::string>& command, Budget& budget) {
  if (command[0] == "seq") return numbers(command, budget);
  if (command[0] == "printf") return shell_printf(command, 1, budget);
  if (command[0] != "echo") return std::nullopt;
  std::string text;
  const std::string option = command.size() > 1 ? command[1] : "";
  const bool skips = option == "-n" || option == "-e" || option == "-ne" || option == "-en";
  for (std::size_t i = skips ? 2 : 1; i < command.size(); ++i) {
    budget.bytes(command[i].size());
    text += (text.empty() ? "" : " ") + command[i];
  }
  return option.starts_with("-n") && skips ? text : text + "\n";
}

void ScriptRun::print_into(const std::vector<std::string>& words) {
  const bool known = std::ranges::none_of(
      words, [](const std::string& w) { return w.find_first_of("$`") != w.npos; });
  const auto text = shell_printf(words, 3, s_.variables.budget());
  s_.variables.set_text(words[2], {text.value_or(words.back()), known && text.has_value()}, false);
}

std::optional<ShellText> ScriptRun::printed(std::string_view command) {
  const std::string name(command.substr(0, command.find_first_of(" \t\n;")));
  const auto function = s_.functions.find(name);
  const bool own = function != s_.functions.end();
  const std::size_t length = shell_name_length(name);
  const bool assigns = length > 0 && name.compare(length, 1, "=") == 0;
  const bool prints = name == "echo" || name == "printf" || name == "seq" || name == "for";
  if ((!own && !assigns && !prints) || s_.depth >= kDeepestRun) return std::nullopt;
  // A subshell's variables go with it.
  const auto variables = s_.variables.saved();
  std::vector<std::vector<std::string>> outer = std::exchange(s_.out.commands, {});
  const int depth = s_.depth;
  const auto* parameters = s_.variables.parameters();
  const bool ended = s_.ended, printing = std::exchange(s_.printing, true);
  bool followed = true;
  try {
    if (own) {
      std::istringstream filled(s_.variables.text(command.substr(name.size())).text);
      keep_parameters({std::istream_iterator<std::string>(filled), {}});
      call(function->second, s_.parameters.back());
    } else {
      ++s_.depth;
      s_.others.push_back(std::make_unique<ScriptRun>(command, file_, s_));
      s_.others.back()->follow();
    }
  } catch (const BudgetError&) {
    throw;
  } catch (const InputError&) {
    followed = false;
  }
  s_.depth = depth;
  s_.ended = ended;
  s_.printing = printing;
  s_.variables.set_parameters(parameters);
  s_.variables.restore(variables);
  const auto commands = std::exchange(s_.out.commands, std::move(outer));
  return followed ? output_of(commands) : std::nullopt;
}

// On one line, as the words of a list mostly stand.
std::optional<ShellText> ScriptRun::output_of(
    const std::vector<std::vector<std::string>>& commands) {
  ShellText text;
  for (const std::vector<std::string>& one : commands) {
    const auto out = shell_output(one, s_.variables.budget());
    if (!out || out->find_first_of("$`") != out->npos) return std::nullopt;
    text.text += *out;
  }
  while (text.text.ends_with('\n')) text.text.pop_back();
  std::ranges::replace(text.text, '\n', ' ');
  return text;
}

}  // namespace weir
