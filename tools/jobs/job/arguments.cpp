// The arguments among the words of a script's commands.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/argument_commands.hpp"
#include "tools/jobs/job/given.hpp"
#include "tools/jobs/job/launcher.hpp"
#include "tools/jobs/shell/references.hpp"

namespace weir {
namespace {

// Variables that every environment has: that a script reads them says nothing.
constexpr std::array<std::string_view, 10> kOfEveryShell{
    "PWD",    "OLDPWD",          "HOME",    "USER", "PATH", "LANG", "SHELL",
    "TMPDIR", "LD_LIBRARY_PATH", "HOSTNAME"};

// A number as Python's int and float read it: digits may be grouped by '_'.
template <class Number>
std::optional<Number> parse(std::string text) {
  std::erase(text, '_');
  return whole_number<Number>(text);
}

// What was found where a number was expected; of what a script takes from elsewhere, so.
std::string found_instead(const std::string& given) {
  const std::string shown = given.substr(0, 40);
  if (given.find_first_of("$`") == given.npos) return "found " + shown;
  const bool own = given.size() > 1 && given[0] == '$' &&
                   std::isdigit(static_cast<unsigned char>(given[given[1] == '{' ? 2 : 1])) != 0;
  return fmt::format("found {}, {}", shown,
                     own ? "an argument that the script is started with: write \"set --\" and "
                           "its arguments into the script's first line"
                         : "which is not known here: set it in the environment, or write it there");
}

// A word that may stand for arguments which are not known here: "$EXTRA_ARGS", "$(test ... && echo
// --fp8)".
bool may_hold_arguments(std::string_view word) {
  constexpr std::array<std::string_view, 7> kNames{"ARG",  "ARGS",  "OPTS",  "OPTIONS",
                                                   "FLAG", "FLAGS", "PARAMS"};
  for (const std::string_view reads : {"$(cat ", "`cat ", "$(<"}) {
    if (word.starts_with(reads)) return true;
  }
  if (word.starts_with("$(") || word.starts_with("`")) return word.find("--") != word.npos;
  if (!word.starts_with("$")) return false;
  word.remove_prefix(word.starts_with("${") ? 2 : 1);
  std::string name(word.substr(0, word.find_first_of("}[:")));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name.starts_with("EXTRA") ||
         std::ranges::any_of(kNames, [&](std::string_view n) { return name.ends_with(n); });
}

// A whole word that is filled in elsewhere, or in a file: among arguments it may be several.
bool stands_for_words(std::string_view word) {
  return shell_is_open(word) || (word.size() > 1 && word[0] == '@');
}

// Megatron's options that take nothing, as far as they are common at the end of a line: what
// follows one stands for arguments.
bool is_flag(std::string_view name) {
  constexpr std::array<std::string_view, 5> kBegin{"no-", "use-", "disable-", "enable-",
                                                   "overlap-"};
  constexpr std::array<std::string_view, 12> kFlags{"bf16",
                                                    "fp16",
                                                    "swiglu",
                                                    "sequence-parallel",
                                                    "group-query-attention",
                                                    "untie-embeddings-and-output-weights",
                                                    "recompute-activations",
                                                    "add-qkv-bias",
                                                    "qk-layernorm",
                                                    "squared-relu",
                                                    "mock-data",
                                                    "deepspeed"};
  return std::ranges::find(kFlags, name) != kFlags.end() ||
         std::ranges::any_of(kBegin, [&](std::string_view b) { return name.starts_with(b); });
}

// Megatron's options of any number of values.
bool takes_lists(std::string_view name) {
  constexpr std::array<std::string_view, 7> kLists{"num-experts",
                                                   "recompute-modules",
                                                   "rampup-batch-size",
                                                   "cuda-graph-scope",
                                                   "offload-modules",
                                                   "cuda-graph-modules",
                                                   "moe-router-load-balancing-type"};
  return name.ends_with("data-path") || name.ends_with("data-paths") ||
         name.ends_with("per-split-data-args-path") ||
         std::ranges::find(kLists, name) != kLists.end();
}

}  // namespace

std::vector<std::vector<std::string>> shell_commands(const std::string& text,
                                                     const std::string& file) {
  return read_script(text, file, {}).commands;
}

std::optional<ShellRemark> remark_on_taken(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) {
    return std::ranges::find(kOfEveryShell, name) != kOfEveryShell.end();
  });
  if (names.empty()) return std::nullopt;
  return ShellRemark{0, fmt::format("taken from the environment: {}", fmt::join(names, " "))};
}

Arguments::Arguments(const std::string& text, std::string file, const ShellEnvironment& environment,
                     const ShellFiles& files)
    : file_(std::move(file)), files_(files) {
  read_script_of(text, environment);
}

Arguments Arguments::kept(const std::string& lines, std::string file,
                          const ShellEnvironment& environment, const ShellFiles& files) {
  Arguments made;
  made.file_ = std::move(file);
  made.files_ = files;
  made.kept_ = true;
  made.read_script_of(lines, environment);
  return made;
}

void Arguments::read_script_of(const std::string& text, const ShellEnvironment& environment) {
  ShellScript script = read_script(text, file_, environment, files_);
  written_ = std::move(script.written);
  set_ = std::move(script.set);
  nodes_ = script.nodes;
  gpus_ = script.gpus;
  const auto [commands, place] = argument_commands(script, script.remarks);
  place_ = place;
  remarks_ = std::move(script.remarks);
  for (const std::vector<std::string>& command : commands) {
    for (const std::string& word : command) {
      // The border behind which all text is UTF-8 (plan/text/utf8), for what a script put together.
      if (utf8_prefix(word) != word.size())
        throw InputError(file_, "", "has an argument that is not UTF-8: " + printable(word));
    }
    read(command);
  }
  const bool job = std::ranges::any_of(commands, names_a_model);
  for (const std::string& other : script.not_followed) {
    if (!job)
      remarks_.push_back({0, fmt::format("{}: not followed: what it starts is not known", other)});
  }
  if (!open_.empty()) {
    remarks_.push_back({0, fmt::format("{}: not known here; arguments that it holds are missing",
                                       fmt::join(open_, " "))});
  }
  if (auto taken = remark_on_taken(std::move(script.taken))) remarks_.push_back(*std::move(taken));
}

namespace {

// "--NAME" or "--NAME=VALUE": letters, digits, a variable that is not known, and what else a name
// may have that no shell reads.
bool names_an_argument(std::string_view word) {
  const std::string_view name = word.substr(2, word.find('=') - 2);
  constexpr std::string_view kMarks = "-_.:/+,@%${}";
  return !name.empty() && name.front() != '-' && std::ranges::all_of(name, [=](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           kMarks.find(c) != std::string_view::npos;
  });
}

}  // namespace

void Arguments::leave_open(const std::string& word) {
  if (std::ranges::find(open_, word) == open_.end()) open_.push_back(word);
}

void Arguments::read(const std::vector<std::string>& command) {
  const auto is_program = [](const std::string& word) {
    return word.ends_with(".py") && !word.starts_with("-");
  };
  const bool has_program = !kept_ && std::ranges::any_of(command, is_program);
  if (const auto count = launched_processes(command)) processes_ = count;
  bool launcher = has_program;  // until the program
  for (std::size_t i = 0; i < command.size();) {
    const std::string& word = command[i++];
    const auto equals = word.find('=');
    if (has_program && is_program(word)) {
      program_ = word.substr(word.rfind('/') + 1);
      launcher = false;
    }
    const bool dashes = word.starts_with("--") && word.size() > 2;
    const bool option = dashes && names_an_argument(word);
    if (!option && has_program && !launcher && stands_for_words(word)) leave_open(word);
    if (dashes && !option)
      remarks_.push_back({0, fmt::format("{}: not understood, it names no argument", word)});
    if (!option) continue;
    const std::string name = argument_name(word.substr(0, equals));
    Given given{.written = word.substr(0, equals),
                .launcher = launcher || (!kept_ && !has_program && is_launchers(name))};
    if (equals != std::string::npos) given.values.push_back(word.substr(equals + 1));
    for (; i < command.size() && !command[i].starts_with("--"); ++i) {
      const bool full = !takes_lists(name) && given.values.size() >= (is_flag(name) ? 0 : 1);
      const bool open = full && !given.launcher && stands_for_words(command[i]);
      if (open || may_hold_arguments(command[i])) {
        leave_open(command[i]);
        given.open = true;
        continue;
      }
      if (launcher && is_program(command[i])) break;
      given.values.push_back(command[i]);
    }
    // The launcher's own, of which only what says devices and places is asked for: a word of the
    // training's that strayed there does not reach it.
    if (launcher && !is_launchers(name)) continue;
    // The last of several counts, as for Python's argparse; that they differed is remembered.
    auto [place, fresh] = given_.try_emplace(name);
    given.differed = !fresh && (place->second.differed || place->second.values != given.values);
    place->second = std::move(given);
  }
}

bool Arguments::of_launcher(std::string_view name) const {
  const auto found = given_.find(name);
  return found != given_.end() && found->second.launcher;
}

std::string_view Arguments::own_name(std::string_view name) const {
  const auto other = aliases_.find(name);
  return other == aliases_.end() || given_.contains(name) ? name : other->second;
}

const Arguments::Given* Arguments::look_up(std::string_view name) const {
  const auto found = given_.find(own_name(name));
  return found == given_.end() ? nullptr : &found->second;
}

Arguments::Given* Arguments::find(std::string_view name) {
  const auto found = given_.find(own_name(name));
  if (found == given_.end()) return nullptr;
  found->second.read = true;
  return &found->second;
}

void Arguments::alias(std::string_view other, std::string_view name) {
  if (given_.contains(other) && !given_.contains(name)) aliases_[std::string(name)] = other;
}

bool Arguments::flag(std::string_view name) { return find(name) != nullptr; }

std::optional<std::string> Arguments::text(std::string_view name) {
  const Given* given = find(name);
  if (given == nullptr) return std::nullopt;
  if (given->values.empty()) fail(name, "expected a value");
  return given->values.front();
}

std::string Arguments::text_or(std::string_view name, std::string otherwise) {
  return text(name).value_or(std::move(otherwise));
}

std::optional<std::int64_t> Arguments::maybe_integer(std::string_view name, std::int64_t low,
                                                     std::int64_t high) {
  const auto given = text(name);
  if (!given) return std::nullopt;
  const auto number = parse<std::int64_t>(*given);
  if (!number || *number < low || *number > high) {
    fail(name,
         fmt::format("expected an integer from {} to {}, {}", low, high, found_instead(*given)));
  }
  return number;
}

// A command that ends before its arguments do is what a missing argument mostly comes of.
std::string Arguments::where_the_job_ends() const {
  if (!place_ || place_->first == 0) return "";
  const std::string file = place_->file.empty() ? "" : fmt::format(" of {}", place_->file);
  if (place_->first == place_->last)
    return fmt::format(": the command that trains is on line {}{}", place_->first, file);
  return fmt::format(": the command that trains is on lines {} to {}{}", place_->first,
                     place_->last, file);
}

std::int64_t Arguments::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const auto number = maybe_integer(name, low, high);
  if (number) return *number;
  const auto sourced = std::ranges::find_if(
      remarks_, [](const ShellRemark& r) { return r.text.find("not followed") != r.text.npos; });
  if (sourced == remarks_.end()) fail(name, "is missing" + where_the_job_ends());
  fail(name, sourced->line > 0
                 ? fmt::format("is missing; line {}: {}", sourced->line, sourced->text)
                 : fmt::format("is missing; {}", sourced->text));
}

std::int64_t Arguments::integer_or(std::string_view name, std::int64_t otherwise, std::int64_t low,
                                   std::int64_t high) {
  return maybe_integer(name, low, high).value_or(otherwise);
}

double Arguments::number_or(std::string_view name, double otherwise, double low, double high) {
  const auto given = text(name);
  if (!given) return otherwise;
  const auto number = parse<double>(*given);
  if (!number || !std::isfinite(*number) || *number < low || *number > high) {
    fail(name,
         fmt::format("expected a number from {} to {}, {}", low, high, found_instead(*given)));
  }
  return *number;
}

bool Arguments::says(std::string_view name) const {
  const Given* given = look_up(name);
  if (given == nullptr) return false;
  const std::vector<std::string>& values = given->values;
  return values.empty() || values.front().find_first_of("$`") == std::string::npos;
}

void Arguments::fill(std::string_view name, const std::string& value, std::string_view field) {
  const Given* known = look_up(name);
  if (says(name) && !known->values.empty() && known->values.front() != "auto") {
    const std::string& said = known->values.front();
    const auto number = parse<std::int64_t>(said);
    const bool same = said == value || (number && fmt::to_string(*number) == value);
    if (!same) contradicts(field, value, file_, fmt::format("--{} {}", name, said.substr(0, 40)));
    return;
  }
  refill(name, value);
}

void Arguments::refill(std::string_view name, const std::string& value) {
  std::string written(name);
  Given given{.written = "--" + written, .filled = true};
  if (!value.empty()) given.values.push_back(value);
  given_[written] = std::move(given);
}

std::optional<std::string> Arguments::environment_of(std::string_view variable) const {
  const auto found = set_.find(variable);
  return found == set_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Arguments::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, given] : given_) {
    if (!given.read) names.push_back(name);
  }
  return names;
}

bool Arguments::is_open(std::string_view name) const {
  const auto found = given_.find(name);
  return found != given_.end() && found->second.open && found->second.values.empty() &&
         !is_flag(name);
}

bool Arguments::was_filled(std::string_view name) const {
  const auto found = given_.find(name);
  return found != given_.end() && found->second.filled;
}

std::string Arguments::line(std::string_view name) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return "";
  std::string text = found->second.written;
  bool first = true;
  for (const std::string& value : found->second.values) {
    // Behind a blank it would be an argument of its own, and so it stood behind '=' too.
    text += std::exchange(first, false) && value.starts_with("--") ? '=' : ' ';
    text += shell_quoted(value);
  }
  return text;
}

std::vector<std::string> Arguments::names() const {
  std::vector<std::string> names;
  for (const auto& [name, given] : given_) names.push_back(name);
  return names;
}

std::vector<std::string> Arguments::ambiguous() const {
  std::vector<std::string> names;
  for (const auto& [name, given] : given_) {
    if (given.read && given.differed) names.push_back(name);
  }
  return names;
}

std::string Arguments::values(std::string_view name) const {
  const Given* given = look_up(name);
  return given == nullptr ? "" : fmt::format("{}", fmt::join(given->values, " "));
}

std::optional<std::string> Arguments::file_text(const std::string& path) const {
  const auto own = written_.find(path);
  if (own != written_.end()) return own->second;
  const std::string known = shell_known_path(path);
  if (known.empty() || !files_) return std::nullopt;
  auto file = files_(known);
  return file ? std::optional(std::move(file->text)) : std::nullopt;
}

void Arguments::fail(std::string_view name, const std::string& message) const {
  throw InputError(file_, fmt::format("--{}", name), message);
}

}  // namespace weir
