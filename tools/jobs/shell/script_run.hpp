// A script that is being followed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/jobs/shell/blocks.hpp"
#include "tools/jobs/shell/script_state.hpp"
#include "tools/jobs/shell/tokens.hpp"

namespace weir {

class ScriptRun : private ShellBlocks {
 public:
  ScriptRun(std::string_view text, const std::string& file, ScriptState& state,
            std::vector<std::string> launcher = {})
      : ShellBlocks(text, file, state.variables.budget()),
        s_(state),
        file_(file),
        launcher_(std::move(launcher)) {}

  void follow() { run({0, size()}); }
  void whole();
  // As call() does it, of a function of this text.
  ShellStatus body(ShellRange range) { return run(range); }

 private:
  // Whether what is done there ends the script, functions called among it.
  bool ends_script(ShellRange range, bool calls = true) const;
  void remark(std::size_t i, std::string text) const;
  // What is started there, by words of the command's own or in quotes.
  void note_place(std::size_t first, std::size_t last);
  void start(std::vector<std::string> words);
  bool leaves() const { return s_.ended || s_.returned || s_.left > 0; }

  // ---- commands one after the other -------------------------------------------------------------

  ShellStatus run(ShellRange range);
  std::size_t command(std::size_t i, std::size_t end, ShellStatus& status);

  // ---- functions --------------------------------------------------------------------------------

  std::size_t function(std::size_t i, std::size_t end);
  ShellStatus call(const ShellFunction& function, const std::vector<std::string>& parameters);

  // ---- branches ---------------------------------------------------------------------------------

  std::size_t choice(std::size_t i, std::size_t close, ShellStatus& status);
  std::size_t cases(std::size_t i, std::size_t close);

  // ---- loops ------------------------------------------------------------------------------------

  static constexpr std::size_t kMostRounds = 256;

  std::size_t each(std::size_t i, std::size_t close);
  // for ((begin; condition; step))
  void counted(std::size_t i, ShellRange body);
  std::size_t repeat(std::size_t i, std::size_t close);
  // Whether a loop has started nothing since there were so many commands.
  bool only_sets(std::size_t commands) const {
    return s_.printing || s_.out.commands.size() == commands;
  }
  // One round of a loop: whether another may follow.
  bool goes_on(ShellRange body);

  // ---- one command ------------------------------------------------------------------------------

  // NAME=..., NAME+=...
  bool assign(const ShellToken& token);
  std::size_t simple(std::size_t i, std::size_t end, ShellStatus& status);
  // What a command makes of a here-document: a shell follows it, read puts it into a variable.
  bool takes(const std::vector<std::string>& words, const ShellToken& here);
  // Filled in; quotes are characters like others there.
  std::string unquoted_here(std::string_view here);
  ShellStatus started(std::size_t i, std::vector<std::string> words);
  void sourced(std::size_t i, const std::vector<std::string>& words);
  // From now on "$1" and what follows.
  void keep_parameters(std::vector<std::string> words);
  // Follows the script that a command starts, by itself, a shell or a scheduler; false: it starts
  // none that is known here.
  bool starts_script(const std::vector<std::string>& words);
  // The other file's text with parameters of its own, or the outer ones where there are none.
  void other(ShellFile file, std::vector<std::string> parameters,
             std::vector<std::string> launcher);
  // What a "$(...)" puts out: a function of the script, or commands that print, run in a shell of
  // their own; nullopt where more happens there, or a part of it is not known.
  std::optional<ShellText> printed(std::string_view command);
  std::optional<ShellText> output_of(const std::vector<std::vector<std::string>>& commands);
  // printf -v NAME FORMAT ...
  void print_into(const std::vector<std::string>& words);
  // A script in a word. One that is none is taken as words.
  ShellStatus inner(const std::string& text, std::vector<std::string> launcher,
                    const std::vector<std::string>& words);

  ScriptState& s_;
  const std::string& file_;
  std::vector<std::string> launcher_;  // words that start what is read here, before each command
  bool tested_ = false;                // the last command was a condition
  bool quoted_ = false;                // what is read here stands in a word of the file
};

}  // namespace weir
