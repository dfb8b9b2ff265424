// Roff by hand: a title, and sections of paragraphs.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/help/manual.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "plan/text/text_file.hpp"
#include "tools/weir/help/examples.hpp"

namespace weir {
namespace {

using Arguments = std::vector<DescribedArgument>;

std::string bold(std::string_view text) { return "\\fB" + roff_text(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff_text(text) + "\\fR"; }

std::string section(std::string_view title, std::string_view text) {
  return fmt::format(".SH {}\n{}", title, text);
}

// Without a date: the same sources make the same page. Words are not divided, nor set apart: what
// looks like a path or an option is one.
std::string title(std::string_view name, std::string_view summary) {
  std::string capitals(name);
  std::ranges::transform(capitals, capitals.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(
      ".\\\" Made by weir --man-pages.\n.TH {} 1 \"\" \"weir {}\" \"User Commands\"\n.nh\n.ad "
      "l\n{}",
      roff_text(capitals), WEIR_VERSION,
      section("NAME", fmt::format("{} \\- {}\n", roff_text(name), roff_text(summary))));
}

// Lines that stay lines.
std::string as_they_stand(std::string_view lines) {
  std::string text = ".nf\n";
  for (std::size_t from = 0; from < lines.size();) {
    const std::size_t to = std::min(lines.find('\n', from), lines.size());
    text += roff_text(lines.substr(from, to - from)) + "\n";
    from = to + 1;
  }
  return text + ".fi\n";
}

// Its help, and what is known of its value, as sentences behind it.
std::string help_of(const DescribedArgument& argument) {
  std::vector<std::string> sentences{argument.help};
  if (!argument.choices.empty()) {
    sentences.push_back(fmt::format("One of {}", fmt::join(argument.choices, ", ")));
  } else if (!argument.within.empty()) {
    sentences.push_back("From " + argument.within);
  }
  // What a number that nobody gave means is often in its help. Between parentheses a folder "." is
  // no end of a sentence.
  const bool said = argument.help.find("default") != std::string::npos;
  if (!argument.unsaid.empty() && !said)
    sentences.back() += fmt::format(" (default: {})", argument.unsaid);
  if (!argument.excludes.empty())
    sentences.push_back(fmt::format("Not with {}", fmt::join(argument.excludes, ", ")));
  if (argument.required && !argument.names.empty()) sentences.emplace_back("Required");
  if (sentences.size() == 1) return sentences.front();
  std::string text;
  for (const std::string& sentence : sentences)
    text += (text.empty() ? "" : " ") + sentence + (sentence.ends_with('.') ? "" : ".");
  return text;
}

// Lines that may be filled, each of which begins anew.
std::string line_by_line(std::string_view lines) {
  std::string text;
  for (const char c : roff_text(lines)) {
    text += c;
    if (c == '\n') text += ".br\n";
  }
  return text;
}

std::string paragraph_of(const DescribedArgument& argument) {
  std::string head;
  for (const std::string& name : argument.names) head += (head.empty() ? "" : ", ") + bold(name);
  const std::string value = argument.names.empty() ? argument.place : argument.value;
  if (!value.empty()) head += (head.empty() ? "" : " ") + italic(value);
  if (argument.several) head += " ...";
  return fmt::format(".TP\n{}\n{}\n", head, roff_text(help_of(argument)));
}

// By the headings of --help, in the order in which they first come.
std::string options_by_group(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (const DescribedArgument& argument : arguments) {
    if (argument.names.empty()) continue;
    auto group = std::ranges::find(groups, argument.group, [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(group, {argument.group, ""});
    group->second += paragraph_of(argument);
  }
  std::string text;
  for (const auto& [heading, paragraphs] : groups)
    text += fmt::format(".SS {}\n{}", roff_text(heading), paragraphs);
  return text;
}

std::string synopsis(std::string_view command, const Arguments& arguments) {
  std::string text = fmt::format("{} {} [{}]", bold("weir"), bold(command), italic("OPTIONS"));
  for (const DescribedArgument& argument : arguments) {
    if (!argument.names.empty()) continue;
    const std::string place = italic(argument.place) + (argument.several ? " ..." : "");
    text += argument.required ? " " + place : fmt::format(" [{}]", place);
  }
  return text + "\n";
}

std::string exit_status() {
  // Its first line, without the words that the heading says.
  const std::string text = exit_codes_text();
  const std::size_t from = text.find(": ") + 2;
  return section("EXIT STATUS", roff_text(text.substr(from, text.find('\n') - from)) + "\n");
}

}  // namespace

std::string roff_text(std::string_view text) {
  // A hyphen that can be copied into a shell, quotes as they are typed.
  static constexpr std::array<std::pair<char, std::string_view>, 7> kEscapes{{{'\\', "\\e"},
                                                                              {'-', "\\-"},
                                                                              {'\'', "\\(aq"},
                                                                              {'`', "\\(ga"},
                                                                              {'"', "\\(dq"},
                                                                              {'^', "\\(ha"},
                                                                              {'~', "\\(ti"}}};
  std::string escaped;
  for (std::size_t at = 0; at < text.size(); ++at) {
    // A point is a request where a line begins with it.
    if (text[at] == '.' && (at == 0 || text[at - 1] == '\n')) escaped += "\\&";
    const auto* const escape =
        std::ranges::find(kEscapes, text[at], [](const auto& pair) { return pair.first; });
    if (escape == kEscapes.end()) {
      escaped += text[at];
    } else {
      escaped += escape->second;
    }
  }
  return escaped;
}

std::string manual_of_all(const std::vector<DescribedCommand>& commands, const Arguments& common) {
  std::string listed;
  for (const DescribedCommand& command : commands)
    listed += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff_text("weir-" + command.name),
                          roff_text(command.summary));
  std::string options;
  for (const DescribedArgument& argument : common) options += paragraph_of(argument);
  const auto topic = [](std::string_view heading, std::string_view of) {
    return section(heading, as_they_stand(help_on(of).value()));
  };
  return title("weir", "forecasts pipeline-parallel training, runs the plan it picked") +
         section("SYNOPSIS", fmt::format("{} [{}] {} [{}]\n", bold("weir"), italic("OPTIONS"),
                                         italic("COMMAND"), italic("ARGUMENTS"))) +
         section("COMMANDS", listed) + section("OPTIONS", options) + topic("FILES", "files") +
         topic("SCHEDULES", "schedules") +
         section("CLUSTERS", line_by_line(help_on("clusters").value())) + exit_status();
}

std::string manual_of(const DescribedCommand& command) {
  std::string arguments;
  for (const DescribedArgument& argument : command.arguments)
    if (argument.names.empty()) arguments += paragraph_of(argument);
  const std::string options = options_by_group(command.arguments);
  std::string examples;
  for (const auto& [line, says] : examples_for(command.name))
    examples += fmt::format(".TP\n{}\n{}\n", bold(line), roff_text(says));
  return title("weir-" + command.name, command.summary) +
         section("SYNOPSIS", synopsis(command.name, command.arguments)) +
         (arguments.empty() ? "" : section("ARGUMENTS", arguments)) +
         (options.empty() ? "" : section("OPTIONS", options)) +
         (examples.empty() ? "" : section("EXAMPLES", examples)) + exit_status() +
         section("SEE ALSO", fmt::format("{}(1), for the options of all commands\n", bold("weir")));
}

void write_manual(const std::filesystem::path& folder,
                  const std::vector<DescribedCommand>& commands, const Arguments& common) {
  write_file_atomically(folder / "weir.1", manual_of_all(commands, common));
  for (const DescribedCommand& command : commands)
    write_file_atomically(folder / ("weir-" + command.name + ".1"), manual_of(command));
}

}  // namespace weir
