// From CLI11's errors and the words that it left over.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/refusal.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "plan/words/nearest.hpp"
#include "tools/weir/help/described.hpp"

namespace weir {
namespace {

// CLI11's "--to: megatro not in {torch,megatron}" names the word and all that it may be.
std::string meant_choice(std::string_view line) {
  const std::size_t of = line.find(" not in {"), colon = line.find(": ");
  if (of == line.npos || colon == line.npos || colon + 2 > of) return {};
  std::vector<std::string> known(1);
  for (const char c : line.substr(of + 9, line.find('}', of) - of - 9)) {
    if (c == ',') {
      known.emplace_back();
    } else {
      known.back() += c;
    }
  }
  return did_you_mean(line.substr(colon + 2, of - colon - 2), known);
}

// An option that stands there more often than it may, whatever its names: --svg and --pdf are one.
std::string repeated(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const auto given = option->count();
    if (option->get_items_expected_max() != 1 || given < 2) continue;
    std::vector<std::string> names;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return fmt::format("{}: expected once, given {} times", fmt::join(names, " or "), given);
  }
  return {};
}

}  // namespace

std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  // Unknown words first: they are the cause, whatever else CLI11 found missing.
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) {
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
      for (const CLI::App* command : app.get_subcommands()) {
        // What does not match is most often an option that was given twice.
        if (std::string line = repeated(*command); !line.empty()) return line;
      }
    }
    std::string line = error.what();
    std::ranges::replace(line, '\n', ' ');
    return line + meant_choice(line);
  }
  const auto chosen = app.get_subcommands();
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const bool option = word.starts_with("-");
  // Only names that could stand here are offered.
  std::vector<std::string> known;
  if (option) {
    for (const CLI::App* level : {&app, chosen.empty() ? &app : chosen.front()})
      for (const DescribedArgument& argument : options_of(*level))
        known.insert(known.end(), argument.names.begin(), argument.names.end());
  } else if (chosen.empty()) {
    known = command_names(app);
  }
  std::string line = option           ? fmt::format("{} is no option of weir", word)
                     : chosen.empty() ? fmt::format("{} is no command of weir", word)
                                      : fmt::format("{} is one argument too many for weir", word);
  if (!chosen.empty()) line += " " + chosen.front()->get_name();
  return line + did_you_mean(word, known);
}

}  // namespace weir
