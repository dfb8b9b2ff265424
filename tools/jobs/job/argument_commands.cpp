// The words of a script's commands, and the command that trains a model among them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/argument_commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weir {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
// Commands beside the job: what they are given is none of its arguments.
constexpr std::array<std::string_view, 28> kBeside{
    "echo", "printf", "mkdir", "rm",   "cp",     "mv",       "ls",     "cat",  "cd",   "pip",
    "pip3", "conda",  "git",   "wget", "curl",   "tar",      "tee",    "sed",  "grep", "awk",
    "find", "chmod",  "date",  "set",  "ulimit", "scontrol", "module", "rsync"};

// The words of a command, where one that holds an option and more is all of them: bash splits
// "--lr 1e-4", quoted in an array, at its blanks where the array is used without quotes, and a
// shell's -c is a command. Quotes inside such a word go with the split.
std::vector<std::string> split_words(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  bool script = false;  // the word before was a shell's -c
  for (const std::string& word : command) {
    const std::size_t start = word.find_first_not_of(kBlanks);
    const bool option = start != word.npos && word.compare(start, 2, "--") == 0;
    const bool several = word.find_first_of(kBlanks) < word.find('=') ||
                         word.find(" --") != word.npos || word.find("\n--") != word.npos;
    if (!several || !(option || script)) {
      words.push_back(word);
    } else {
      for (std::size_t at = start; at < word.size();) {
        const std::size_t end = std::min(word.find_first_of(kBlanks, at), word.size());
        std::string one = word.substr(at, end - at);
        if (one.size() > 1 && one.front() == one.back() && (one[0] == '\'' || one[0] == '"'))
          one = one.substr(1, one.size() - 2);
        words.push_back(std::move(one));
        at = word.find_first_not_of(kBlanks, end);
      }
    }
    script = word == "-c" || word == "-lc";
  }
  return words;
}

// "2>&1", "> log": with what they name they are the shell's. A "<" in angle brackets is text.
bool redirects(std::string_view word) {
  const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  word = word.substr(digits);
  return word.starts_with('>') || word.starts_with("&>") || word == "<";
}

// Without what is the shell's: of `sh -c "... > log"` too.
std::vector<std::string> plain_words(const std::vector<std::string>& all) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!redirects(all[i])) {
      words.push_back(all[i]);
    } else if (std::string_view("<>&|").find(all[i].back()) != std::string_view::npos) {
      ++i;  // the file
    }
  }
  return words;
}

bool is_beside(const std::vector<std::string>& command) {
  const std::string_view name = command.front();
  return std::ranges::find(kBeside, name.substr(name.rfind('/') + 1)) != kBeside.end();
}

}  // namespace

std::string argument_name(std::string_view word) {
  std::string name(word.substr(2));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool names_a_model(const std::vector<std::string>& command) {
  if (command.front().starts_with("--")) return false;
  return std::ranges::any_of(command, [](const std::string& word) {
    return word.starts_with("--") && argument_name(word.substr(0, word.find('='))) == "num-layers";
  });
}

ArgumentCommands argument_commands(const ShellScript& script, std::vector<ShellRemark>& remarks) {
  std::vector<std::vector<std::string>> all, jobs;
  std::optional<ShellPlace> place;  // of the last job
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const auto& command = script.commands[i];
    if (is_beside(command)) continue;
    // The words of quoted arguments apart.
    std::vector<std::string> words = plain_words(split_words(command));
    if (words.empty()) continue;
    if (names_a_model(words)) {
      jobs.push_back(words);
      place = script.places[i];
    }
    all.push_back(std::move(words));
  }
  if (!jobs.empty()) {
    const std::ptrdiff_t others = std::ranges::count_if(
        jobs, [&](const std::vector<std::string>& job) { return job != jobs.back(); });
    if (others > 0) {
      remarks.push_back(
          {0, fmt::format("{} commands train a model: the last is read", others + 1)});
    }
    // Lines of arguments alone, where a backslash was forgotten, are the job's too.
    for (const std::vector<std::string>& command : all) {
      if (!command.front().starts_with("--")) continue;
      remarks.push_back(
          {0,
           fmt::format("{} begins a line of its own, where bash has no argument: the line before "
                       "does not end in a backslash, or is a comment; it is read all the same",
                       command.front())});
    }
    std::erase_if(all, [&](const std::vector<std::string>& command) {
      return command != jobs.back() && !command.front().starts_with("--");
    });
    return {std::move(all), std::move(place)};
  }
  for (const auto& words : script.unused) {
    std::vector<std::string> apart;
    for (const std::string& word : words) {
      for (std::size_t at = word.find_first_not_of(kBlanks); at < word.size();) {
        const std::size_t end = std::min(word.find_first_of(kBlanks, at), word.size());
        apart.push_back(word.substr(at, end - at));
        at = word.find_first_not_of(kBlanks, end);
      }
    }
    all.push_back(plain_words(apart));
  }
  return {std::move(all), std::nullopt};
}

}  // namespace weir
