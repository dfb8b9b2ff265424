// What a script's simple commands do: assignments, functions, other files, and what is started.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <utility>

#include "plan/words/error.hpp"
#include "tools/jobs/shell/condition.hpp"
#include "tools/jobs/shell/counting.hpp"
#include "tools/jobs/shell/references.hpp"
#include "tools/jobs/shell/script_run.hpp"
#include "tools/jobs/shell/slurm.hpp"

namespace weir {
namespace {

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& set, std::string_view word) {
  return std::ranges::find(set, word) != set.end();
}
// Commands that follow a script on their input.
constexpr std::array<std::string_view, 6> kTakesScripts{"sbatch", "bash", "sh",
                                                        "srun",   "ssh",  "qsub"};
constexpr std::array<std::string_view, 5> kDeclares{"export", "declare", "local", "readonly",
                                                    "typeset"};
// Commands that start a script that they are given.
constexpr std::array<std::string_view, 15> kStartsScripts{
    "sbatch", "bash", "sh",   "zsh", "srun",  "mpirun",      "mpiexec",  "qsub",
    "exec",   "time", "nice", "env", "nohup", "singularity", "apptainer"};
bool is_script(std::string_view word) {
  constexpr std::array<std::string_view, 5> kEnds{".sh", ".bash", ".slurm", ".sbatch", ".job"};
  return !word.starts_with("-") &&
         std::ranges::any_of(kEnds, [&](std::string_view end) { return word.ends_with(end); });
}
// Files that set up a machine rather than a job.
constexpr std::array<std::string_view, 5> kSetsUp{"activate", "conda", "bashrc", "profile",
                                                  "modules"};

}  // namespace

bool ScriptRun::assign(const ShellToken& token) {
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

std::size_t ScriptRun::simple(std::size_t i, std::size_t end, ShellStatus& status) {
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
  note_place(begin, last - 1);
  status = started(begin, std::move(words));
  return last;
}

bool ScriptRun::takes(const std::vector<std::string>& words, const ShellToken& here) {
  if (words.empty()) return false;
  const std::string_view name = std::string_view(words[0]).substr(words[0].rfind('/') + 1);
  const bool quoted = !here.elements.empty();
  if (name == "read" && shell_name_length(words.back()) == words.back().size()) {
    s_.variables.set_text(words.back(),
                          quoted ? ShellText{here.text} : s_.variables.text(here.text), false);
    return true;
  }
  if (name == "cat" || name == "tee") {
    const auto to = std::ranges::find_if(words, [](const auto& w) { return w.starts_with(">"); });
    const std::string& file = to == words.end() || to + 1 == words.end() ? words.back() : to[1];
    s_.out.written[file] = quoted ? here.text : unquoted_here(here.text);
    return false;
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

std::string ScriptRun::unquoted_here(std::string_view here) {
  std::string raw;
  for (const char c : here) {
    if (c == '"' || c == '\'') raw += '\\';
    raw += c;
  }
  return s_.variables.text(raw).text;
}

ShellStatus ScriptRun::started(std::size_t i, std::vector<std::string> words) {
  if (words.empty()) return true;
  const std::string& name = words[0];
  if (name == "true" || name == ":") return true;
  if (name == "false") return false;
  if (name == "exit") {
    s_.ended = true;
    return true;
  }
  if (name == "return") {
    s_.returned = true;
    return true;
  }
  if (name == "break" || name == "continue") {
    s_.left =
        words.size() > 1 ? std::max<std::int64_t>(s_.variables.sum(words[1]).value_or(1), 1) : 1;
    s_.again = name == "continue";
    return true;
  }
  if (name == "printf" && words.size() > 3 && words[1] == "-v") {
    print_into(words);
    return true;
  }
  if (name == "let") {
    for (std::size_t j = 1; j < words.size(); ++j)
      static_cast<void>(shell_count(words[j], s_.variables));
    return true;
  }
  if (name == "set" && words.size() > 1 && words[1] == "--") {
    keep_parameters({words.begin() + 2, words.end()});
    return true;
  }
  if (name == "shift" && s_.variables.parameters() != nullptr) {
    const std::vector<std::string>& now = *s_.variables.parameters();
    const std::int64_t by = words.size() > 1 ? s_.variables.sum(words[1]).value_or(1) : 1;
    const auto gone = std::clamp<std::int64_t>(by, 0, std::ssize(now));
    keep_parameters({now.begin() + gone, now.end()});
    return true;
  }
  if (name == "source" || name == ".") {
    if (words.size() > 1) sourced(i, words);
    return std::nullopt;
  }
  const auto function = s_.functions.find(name);
  if (function != s_.functions.end())
    return call(function->second, {words.begin() + 1, words.end()});
  if (name == "eval" && words.size() > 1) {
    words.erase(words.begin());
    const std::string text = fmt::format("{}", fmt::join(words, " "));
    return inner(text, launcher_, words);
  }
  if (name == "ssh") {  // "ssh host 'command'"
    const std::string command = words.back();
    if (command.find(' ') != command.npos && !shell_is_open(command) && !command.starts_with("-"))
      return inner(command, launcher_, words);
  }
  // A shell's -c is a script; a Python's is not.
  for (std::size_t j = 0; j + 1 < words.size(); ++j) {
    const bool shell = j > 0 && (words[j - 1].ends_with("sh"));
    if (!shell || (words[j] != "-c" && words[j] != "-lc" && words[j] != "-xc")) continue;
    std::vector<std::string> launcher = launcher_;
    launcher.insert(launcher.end(), words.begin(), words.begin() + static_cast<long>(j) + 1);
    return inner(words[j + 1], std::move(launcher), words);
  }
  if (starts_script(words)) return std::nullopt;
  words.insert(words.begin(), launcher_.begin(), launcher_.end());
  start(std::move(words));
  return std::nullopt;
}

void ScriptRun::note_place(std::size_t first, std::size_t last) {
  if (quoted_ || s_.printing) return;
  s_.place = {file_ == s_.file ? "" : file_, at(first).line, at(last).line};
}

void ScriptRun::start(std::vector<std::string> words) {
  if (!s_.printing) s_.out.places.push_back(s_.place);
  s_.out.commands.push_back(std::move(words));
}

void ScriptRun::keep_parameters(std::vector<std::string> words) {
  s_.variables.budget().elements(words.size());
  for (const std::string& word : words) s_.variables.budget().bytes(word.size());
  s_.parameters.push_back(std::move(words));
  s_.variables.set_parameters(&s_.parameters.back());
}

void ScriptRun::sourced(std::size_t i, const std::vector<std::string>& words) {
  const std::string& path = words[1];
  const bool sets_up = std::ranges::any_of(
      kSetsUp, [&](std::string_view part) { return path.find(part) != path.npos; });
  if (sets_up) return;
  const std::string known = shell_known_path(path);
  auto file =
      known.empty() || !s_.files || s_.depth >= kDeepestRun ? std::nullopt : s_.files(known);
  if (!file) {
    remark(i, fmt::format("source {}: not followed, what it sets is not known", path));
    s_.unfollowed = true;
    return;
  }
  if (known != path) remark(i, fmt::format("source {}: {} is read", path, file->name));
  other(std::move(*file), {words.begin() + 2, words.end()}, launcher_);
}

void ScriptRun::other(ShellFile file, std::vector<std::string> parameters,
                      std::vector<std::string> launcher) {
  ++s_.depth;
  const auto* outer = s_.variables.parameters();
  if (!parameters.empty()) {
    s_.parameters.push_back(std::move(parameters));
    s_.variables.set_parameters(&s_.parameters.back());
  }
  s_.names.push_back(std::move(file.name));
  s_.others.push_back(
      std::make_unique<ScriptRun>(file.text, s_.names.back(), s_, std::move(launcher)));
  s_.others.back()->follow();
  s_.returned = false;
  s_.variables.set_parameters(outer);
  --s_.depth;
}

// Its variables are taken to be this script's: what it reads of them was mostly exported.
bool ScriptRun::starts_script(const std::vector<std::string>& words) {
  const auto base = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  const auto script = std::ranges::find_if(words, is_script);
  if (script == words.end() || (script != words.begin() && !is_in(kStartsScripts, base(words[0]))))
    return false;
  const auto python = [](const std::string& word) { return word.ends_with(".py"); };
  if (std::any_of(words.begin(), script, python)) return false;
  const auto sets_up = [&](std::string_view part) { return script->find(part) != script->npos; };
  if (std::ranges::any_of(kSetsUp, sets_up)) return false;
  const auto own = s_.out.written.find(*script);
  const std::string known = shell_known_path(*script);
  std::optional<ShellFile> file;
  if (own != s_.out.written.end()) {
    file = ShellFile{*script, own->second};
  } else if (!known.empty() && s_.files) {
    file = s_.files(known.starts_with("./") ? known.substr(2) : known);
  }
  const bool again = file && std::ranges::find(s_.following, file->name) != s_.following.end();
  if (!file || again || s_.depth >= kDeepestRun) {
    if (!again) s_.out.not_followed.push_back(*script);
    return again;  // its words may be the job's arguments
  }
  const SlurmRequest slurm = slurm_request(file->text);
  if (!s_.out.nodes) s_.out.nodes = slurm.nodes;
  if (!s_.out.gpus) s_.out.gpus = slurm.devices();
  for (const auto& [name, value] : slurm.variables()) {
    if (s_.variables.find(name) == nullptr) s_.variables.set_text(name, {value, true}, false);
  }
  std::vector<std::string> launcher = launcher_;
  launcher.insert(launcher.end(), words.begin(), script);
  s_.following.push_back(file->name);
  const bool ended = s_.ended;
  const int depth = s_.depth;
  const auto* parameters = s_.variables.parameters();
  try {
    other(std::move(*file), {script + 1, words.end()}, std::move(launcher));
  } catch (const BudgetError&) {
    throw;
  } catch (const InputError&) {
    s_.out.not_followed.push_back(*script);  // it is not closed somewhere
    s_.variables.set_parameters(parameters);
  }
  s_.depth = depth;
  s_.ended = ended;
  s_.following.pop_back();
  return true;
}

ShellStatus ScriptRun::inner(const std::string& text, std::vector<std::string> launcher,
                             const std::vector<std::string>& words) {
  if (s_.depth < kDeepestRun) {
    ++s_.depth;
    const bool ended = s_.ended;
    try {
      s_.others.push_back(std::make_unique<ScriptRun>(text, file_, s_, std::move(launcher)));
      s_.others.back()->quoted_ = true;
      s_.others.back()->follow();
      s_.ended = ended;
      --s_.depth;
      return std::nullopt;
    } catch (const BudgetError&) {
      throw;
    } catch (const InputError&) {
      s_.ended = ended;
      --s_.depth;
    }
  }
  start(words);
  return std::nullopt;
}

}  // namespace weir
