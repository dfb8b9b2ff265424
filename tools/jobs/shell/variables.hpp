// A script's variables, and words with them filled in. What is not known stays in the text as it is
// written: "${RANK}", "$(date)".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/jobs/bounds/budget.hpp"
#include "tools/jobs/shell/references.hpp"

namespace weir {

using ShellEnvironment = std::map<std::string, std::string, std::less<>>;

struct ShellVariable {
  std::vector<std::string> words;  // one unless it is an array
  bool known = true;               // nothing in it was left as it is written
  bool used = false;
  bool supposed = false;  // by suppose_empty(): to bash it is not set
};

// Words in which variables are filled in.
struct ShellWords {
  std::vector<std::string> words;
  bool known = true;
};
struct ShellText {
  std::string text;
  bool known = true;
};

class ShellVariables {
 public:
  // `file` names the script where it costs too much to follow.
  ShellVariables(const ShellEnvironment& environment, const std::string& file)
      : environment_(environment), budget_(file) {}

  // Of all that follows the script.
  [[nodiscard]] Budget& budget() { return budget_; }

  // `more`: behind what the variable has already, as += does; as words of an array or as text. What
  // is not known leaves a value of the environment as it is.
  void set_text(std::string_view name, const ShellText& value, bool more);
  void set_array(std::string_view name, ShellWords value, bool more);
  // "$1" and what follows, while a function runs; nullptr: not known.
  void set_parameters(const std::vector<std::string>* parameters) { parameters_ = parameters; }
  [[nodiscard]] const std::vector<std::string>* parameters() const { return parameters_; }

  // What a command of the script's own prints, where that is known.
  using Printed = std::function<std::optional<ShellText>(std::string_view command)>;
  void set_printed(Printed printed) { printed_ = std::move(printed); }

  // A raw word filled in: several words where it is split at blanks, none where it is empty.
  [[nodiscard]] ShellWords words(std::string_view raw);
  // The same unsplit, as on the right of '=' and in conditions.
  [[nodiscard]] ShellText text(std::string_view raw);
  [[nodiscard]] std::optional<std::int64_t> sum(std::string_view expression);
  // nullopt where it is neither set nor in the environment.
  [[nodiscard]] const ShellVariable* find(std::string_view name);

  [[nodiscard]] const std::map<std::string, ShellVariable, std::less<>>& all() const {
    return variables_;
  }
  // All of them as they are, for a subshell, and as they were once it has ended; those that it used
  // were used.
  using Variables = std::map<std::string, ShellVariable, std::less<>>;
  [[nodiscard]] Variables saved();
  void restore(Variables before);

  // Whether the variable is one that a user would set by hand and nobody did: not the script, not
  // the environment, and no launcher would. It is empty from then on.
  [[nodiscard]] bool suppose_empty(const std::string& name);
  [[nodiscard]] const std::set<std::string>& supposed_empty() const { return empty_; }
  // Variables that the environment gave.
  [[nodiscard]] const std::set<std::string>& taken() const { return taken_; }

 private:
  friend class ShellFiller;
  const ShellEnvironment& environment_;
  std::map<std::string, ShellVariable, std::less<>> variables_;
  std::set<std::string> taken_, empty_;
  const std::vector<std::string>* parameters_ = nullptr;
  Printed printed_;
  Budget budget_;
  int depth_ = 0;
};

}  // namespace weir
