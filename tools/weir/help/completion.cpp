// Completion for bash, zsh and fish. Each script is a table of what the sub-commands take, and a
// few lines that look the current word up in it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/help/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using Commands = std::vector<DescribedCommand>;
using Arguments = std::vector<DescribedArgument>;

std::vector<std::string> names_of(const Commands& commands) {
  std::vector<std::string> names;
  for (const DescribedCommand& command : commands) names.push_back(command.name);
  return names;
}

// Those of the sub-command, and those of all.
Arguments together(const Arguments& own, const Arguments& common) {
  Arguments all = own;
  all.insert(all.end(), common.begin(), common.end());
  return all;
}

// The words that a value may be, whether or not it may be something else.
std::string values_of(const DescribedArgument& argument) {
  const auto& words = argument.choices.empty() ? argument.names_known : argument.choices;
  return fmt::format("{}", fmt::join(words, " "));
}

std::string bash(const Commands& commands, const Arguments& common) {
  std::string options, values;
  for (const DescribedCommand& command : commands) {
    std::vector<std::string> words;
    for (const DescribedArgument& argument : together(command.arguments, common)) {
      // Choices complete an option's value; names complete the option. Where no known name begins
      // so, the shell goes on with files.
      words.insert(words.end(), argument.names.begin(), argument.names.end());
      const std::string known = values_of(argument);
      if (known.empty()) continue;
      for (const std::string& name : argument.names)
        values +=
            fmt::format("    '{} {}') words={} ;;\n", command.name, name, shell_quoted(known));
    }
    options += fmt::format("    {}) words='{}' ;;\n", command.name, fmt::join(words, " "));
  }
  return fmt::format(R"(# Completion of weir for bash, made by: weir --completion bash
_weir() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= words= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $word in -*) ;; *) command=$word; break ;; esac
  done
  COMPREPLY=()
  case "$command $before" in
{}  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case $command in
    '') words='{}' ;;
{}  esac
  if [ -z "$command" ] || [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}}
complete -o bashdefault -o default -F _weir weir
)",
                     values, fmt::join(names_of(commands), " "), options);
}

// A text inside a specification of _arguments, where brackets and colons mean something.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// '(-K --pp)'{-K,--pp}'[help]:value:_files', a line an argument.
std::string zsh_argument(const DescribedArgument& argument) {
  const std::string known = values_of(argument);
  std::string value = known.empty() ? ":value:_files" : fmt::format(":value:({})", known);
  // Names first, and files beside them; a colon within an action is escaped.
  if (!argument.names_known.empty())
    value = fmt::format(":value:{{_alternative \"names\\:name\\:({})\" \"files\\:file\\:_files\"}}",
                        known);
  if (argument.names.empty())
    return "        " + shell_quoted("*:" + zsh_text(argument.help) + ":_files");
  std::string line;
  // An option that was given under one name is not offered under another.
  const std::string others = fmt::format("({})", fmt::join(argument.names, " "));
  for (const std::string& name : argument.names) {
    const std::string taken = argument.takes_value ? value : "";
    if (!line.empty()) line += " \\\n";
    line += "        " +
            shell_quoted(fmt::format("{}{}[{}]{}", others, name, zsh_text(argument.help), taken));
  }
  return line;
}

std::string zsh(const Commands& commands, const Arguments& common) {
  std::string described, cases;
  for (const DescribedCommand& command : commands) {
    described += "    " + shell_quoted(command.name + ":" + zsh_text(command.summary)) + "\n";
    std::vector<std::string> lines;
    bool placed = false;
    for (const DescribedArgument& argument : together(command.arguments, common)) {
      if (argument.names.empty() && placed) continue;  // one line stands for all of them
      placed = placed || argument.names.empty();
      lines.push_back(zsh_argument(argument));
    }
    cases += fmt::format("    {})\n      _arguments \\\n{} ;;\n", command.name,
                         fmt::join(lines, " \\\n"));
  }
  return fmt::format(R"(#compdef weir
# Completion of weir for zsh, made by: weir --completion zsh
_weir() {{
  local -a commands=(
{}  )
  local -i at=2  # the sub-command stands behind the options of all
  while (( at < CURRENT )) && [[ $words[at] == -* ]]; do (( at++ )); done
  if (( CURRENT == at )); then
    _describe command commands
    return
  fi
  shift $(( at - 1 )) words
  (( CURRENT -= at - 1 ))
  case $words[1] in
{}  esac
}}
if [ "$funcstack[1]" = _weir ]; then _weir "$@"; else compdef _weir weir; fi
)",
                     described, cases);
}

// Between single quotes fish reads \' and \\ and nothing else.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string fish_argument(const std::string& command, const DescribedArgument& argument) {
  std::string line = fmt::format("complete -c weir -n '__fish_seen_subcommand_from {}'", command);
  for (const std::string& name : argument.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (argument.takes_value) line += argument.choices.empty() ? " -r" : " -x";
  if (const std::string known = values_of(argument); !known.empty())
    line += " -a " + fish_quoted(known);
  return line + " -d " + fish_quoted(argument.help) + "\n";
}

std::string fish(const Commands& commands, const Arguments& common) {
  std::string text = "# Completion of weir for fish, made by: weir --completion fish\n";
  for (const DescribedCommand& command : commands) {
    text += fmt::format("complete -c weir -f -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(command.summary));
    for (const DescribedArgument& argument : together(command.arguments, common)) {
      if (!argument.names.empty()) text += fish_argument(command.name, argument);
    }
  }
  return text;
}

}  // namespace

std::string completion(std::string_view shell, const Commands& commands, const Arguments& common) {
  if (shell == "bash") return bash(commands, common);
  if (shell == "zsh") return zsh(commands, common);
  if (shell == "fish") return fish(commands, common);
  throw UsageError(fmt::format("--completion {}: expected bash, zsh or fish", shell));
}

}  // namespace weir
