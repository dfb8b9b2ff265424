// Parameter expansion, as much of it as launch scripts use.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/shell/variables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/text/utf8.hpp"
#include "tools/jobs/shell/arithmetic.hpp"
#include "tools/jobs/shell/text_changes.hpp"
#include "tools/jobs/shell/tokens.hpp"

namespace weir {
namespace {

constexpr int kDeepestFill = 32;
constexpr std::uint64_t kStepsOfName = 32;
constexpr std::size_t kLongestText = std::size_t{1} << 20;  // of a variable: A=$A$A grows fast
constexpr std::string_view kSplits = " \t\r\n";

}  // namespace

// One word, filled in from left to right.
class ShellFiller {
 public:
  ShellFiller(ShellVariables& variables, bool splits) : v_(variables), splits_(splits) {}

  ShellWords fill(std::string_view raw) {
    bool quoted = false;
    for (std::size_t at = 0; at < raw.size();) {
      const char c = raw[at];
      if (c == '"') {
        quoted = !quoted;
        in_word_ = true;
        ++at;
      } else if (c == '\'' && !quoted) {
        const std::size_t end = std::min(raw.find('\'', at + 1), raw.size());
        literal(raw.substr(at + 1, end - at - 1));
        at = end + 1;
      } else if (c == '\\' && at + 1 < raw.size()) {
        at += escaped(raw.substr(at), quoted);
      } else if (c == '$' || c == '`') {
        const std::size_t end = shell_reference_end(raw, at);
        reference(raw.substr(at, end - at), quoted);
        at = end;
      } else {
        literal(raw.substr(at++, 1));
      }
    }
    end_word();
    return std::move(result_);
  }

 private:
  void literal(std::string_view text) {
    v_.budget_.bytes(text.size());
    if (word_.size() + text.size() > kLongestText) {
      result_.known = false;
      return;
    }
    word_ += text;
    in_word_ = true;
  }
  void end_word() {
    const bool nothing = nothing_ && word_.empty();  // "$@" of no arguments is no word
    if (in_word_ && !nothing) {
      v_.budget_.elements(1);
      result_.words.push_back(std::exchange(word_, {}));
    }
    in_word_ = nothing_ = false;
  }
  std::size_t escaped(std::string_view rest, bool quoted) {
    const bool line_end = rest[1] == '\n' || rest.starts_with("\\\r\n");
    if (line_end) {
      literal(" ");  // the text goes on in the next line
      return rest[1] == '\n' ? 2 : 3;
    }
    const bool stays = quoted && std::string_view("$`\"\\").find(rest[1]) == std::string_view::npos;
    literal(rest.substr(stays ? 0 : 1, stays ? 2 : 1));
    return 2;
  }
  void reference(std::string_view text, bool quoted) {
    const bool bare = text.size() == 1;
    if (bare) return literal(text);
    if (++v_.depth_ > kDeepestFill) {
      unknown(text);
    } else if (text.starts_with("$((") && text.ends_with("))")) {
      sum(text, text.substr(3, text.size() - 5), quoted);
    } else if (text.starts_with("$[")) {
      sum(text, text.substr(2, text.size() - 3), quoted);
    } else if (text.starts_with("$(")) {
      command(text, text.substr(2, text.size() - 3), quoted);
    } else if (text[0] == '`') {
      command(text, text.substr(1, text.size() - 2), quoted);
    } else if (text.starts_with("${")) {
      braces(text, text.substr(2, text.size() - 3), quoted);
    } else {
      named(text, text.substr(1), quoted);
    }
    --v_.depth_;
  }
  void unknown(std::string_view text) {
    result_.known = false;
    literal(text);
  }
  void sum(std::string_view text, std::string_view inside, bool quoted) {
    const auto value = v_.sum(inside);
    if (!value) return unknown(text);
    add({{fmt::to_string(*value)}, true}, quoted);
  }
  // The text of "cat <<END", a here-document's; nothing where it is another command.
  std::optional<ShellText> here_document(std::string_view of) {
    if (!of.starts_with("cat ") || !trimmed(of.substr(4)).starts_with("<<")) return std::nullopt;
    const std::size_t line = of.find('\n'), end = of.rfind('\n');
    if (line == of.npos || end <= line) return std::nullopt;
    const std::string_view body = of.substr(line + 1, end - line);
    if (of.substr(0, line).find_first_of("'\"") != of.npos) return ShellText{std::string(body)};
    return v_.text(body);
  }
  // Of commands whose output is known some are followed: expr, echo, echo into bc, and a
  // here-document.
  void command(std::string_view text, std::string_view inside, bool quoted) {
    std::string_view of = trimmed(inside);
    std::string expression;
    if (const auto body = here_document(of)) return add({{body->text}, body->known}, quoted);
    if (of.starts_with("echo ") && of.find_first_of("|;&<>\n") == of.npos &&
        !trimmed(of.substr(5)).starts_with("-n")) {
      ShellText said = v_.text(trimmed(of.substr(5)));
      return add({{std::move(said.text)}, said.known}, quoted);
    }
    if (of.starts_with("expr ")) {
      expression = v_.text(of.substr(5)).text;
    } else if (of.starts_with("echo ") && of.ends_with("bc")) {
      const std::size_t pipe = of.rfind('|');
      if (pipe != of.npos && trimmed(of.substr(pipe + 1)) == "bc")
        expression = v_.text(trimmed(of.substr(5, pipe - 5))).text;
    }
    if (const auto said = v_.printed_ ? v_.printed_(of) : std::nullopt)
      return add({{said->text}, said->known}, quoted);
    const auto value = expression.empty() ? std::nullopt : v_.sum(expression);
    if (!value) return unknown(text);
    add({{fmt::to_string(*value)}, true}, quoted);
  }
  void named(std::string_view text, std::string_view name, bool quoted) {
    if (name == "@" || name == "*") return own_arguments(name, quoted);
    if (const auto value = parameter(name)) return add({{*value}, true}, quoted);
    const ShellVariable* known = v_.find(name);
    if (known == nullptr) return unknown(text);
    // An array's plain name is its first word; where arguments were gathered in one all are meant.
    add({copied(known->words), known->known}, quoted);
  }
  // What is copied is made again.
  std::vector<std::string> copied(const std::vector<std::string>& words) {
    v_.budget_.elements(words.size());
    for (const std::string& word : words) v_.budget_.bytes(word.size());
    return words;
  }
  // "$@" of a script that is given none is nothing.
  void own_arguments(std::string_view name, bool quoted) {
    const bool none = v_.parameters_ == nullptr || v_.parameters_->empty();
    if (none) nothing_ = true;
    if (!none) list({copied(*v_.parameters_), true}, name, quoted);
  }
  // All of a list: quoted "${X[*]}" is one word, "${X[@]}" as many as there are.
  void list(const ShellWords& all, std::string_view index, bool quoted) {
    if (all.words.empty()) nothing_ = true;
    if (!quoted || index != "*") return add(all, quoted);
    // "${X[*]}" puts the first character of IFS between its words.
    const ShellVariable* ifs = v_.find("IFS");
    const bool set = ifs != nullptr && ifs->known && ifs->words.size() == 1;
    const std::string between = set ? ifs->words[0].substr(0, utf8_bytes(ifs->words[0], 1)) : " ";
    add({{fmt::format("{}", fmt::join(all.words, between))}, all.known}, true);
  }
  std::optional<std::string> parameter(std::string_view name) const {
    if (v_.parameters_ == nullptr) return std::nullopt;
    if (name == "#") return fmt::to_string(v_.parameters_->size());
    const auto number = whole_number<std::size_t>(name);
    if (!number || *number == 0) return std::nullopt;
    return *number <= v_.parameters_->size() ? (*v_.parameters_)[*number - 1] : "";
  }
  // ${X}, ${X[@]}, ${X[2]}, ${#X[@]}, and ${X:-otherwise} with its sisters.
  void braces(std::string_view text, std::string_view inside, bool quoted) {
    const bool counts = inside.size() > 1 && inside[0] == '#';
    const std::string_view at = counts ? inside.substr(1) : inside;
    std::size_t length = shell_name_length(at);
    while (length == 0 || (length < at.size() && at[0] >= '0' && at[0] <= '9')) {
      const std::size_t digits = std::min(at.find_first_not_of("0123456789@*"), at.size());
      if (digits == 0) return unknown(text);
      length = digits;
      break;
    }
    const std::string_view name = at.substr(0, length);
    std::string_view rest = at.substr(length);
    if ((name == "@" || name == "*") && rest.empty()) return own_arguments(name, quoted);
    std::optional<ShellWords> value = value_of(name);
    std::string_view index;
    if (rest.starts_with("[")) {
      const std::size_t close = rest.find(']');
      if (close == rest.npos) return unknown(text);
      index = rest.substr(1, close - 1);
      rest = rest.substr(close + 1);
      const bool all = index == "@" || index == "*";
      // An element that was set by its own name, as those of "declare -A" are.
      auto own = all ? std::nullopt : value_of(fmt::format("{}[{}]", name, v_.text(index).text));
      if (own) {
        value = std::move(own);
      } else if (!all && value) {
        value = element(*value, index);
      }
      if (!all && !value) return unknown(text);
    } else if (value && value->words.size() > 1 && counts) {
      value->words.resize(1);
    }
    if (counts) {
      if (!value || !value->known || !rest.empty()) return unknown(text);
      const bool of_array = at.size() > length;
      const std::size_t count = of_array               ? value->words.size()
                                : value->words.empty() ? 0
                                                       : utf8_length(value->words[0]);
      return add({{fmt::to_string(count)}, true}, quoted);
    }
    if (rest.empty()) {
      if (!value) return unknown(text);
      return list(*value, index, quoted);
    }
    otherwise(text, rest, value, quoted, name);
  }
  std::optional<ShellWords> value_of(std::string_view name) {
    if (auto given = parameter(name)) return ShellWords{{std::move(*given)}, true};
    const ShellVariable* known = v_.find(name);
    if (known == nullptr) return std::nullopt;
    return ShellWords{copied(known->words), known->known};
  }
  bool is_set(std::string_view name) {
    if (parameter(name)) return true;
    const ShellVariable* known = v_.find(name);
    return known != nullptr && !known->supposed;
  }
  std::optional<ShellWords> element(const ShellWords& of, std::string_view index) {
    const ShellText filled = v_.text(index);
    const auto number = v_.sum(filled.text);
    if (!number || *number < 0 || static_cast<std::size_t>(*number) >= of.words.size())
      return std::nullopt;
    return ShellWords{{of.words[static_cast<std::size_t>(*number)]}, of.known};
  }
  // With ':' an empty variable counts as one that is not set.
  void otherwise(std::string_view text, std::string_view rest,
                 const std::optional<ShellWords>& value, bool quoted, std::string_view name) {
    const bool colon = rest[0] == ':';
    const std::string_view operation = rest.substr(colon ? 1 : 0, 1);
    const std::string_view word = rest.substr(std::min(rest.size(), colon ? 2UL : 1UL));
    const bool empty =
        !value || (value->words == std::vector<std::string>{""} && (colon || !is_set(name)));
    if (operation == "-" || operation == "=" || operation == "?") {
      if (!empty) return add(*value, quoted);
      if (operation == "?") return unknown(text);
      ShellText other = v_.text(word);
      if (operation == "=") v_.set_text(name, other, false);
      return add({{std::move(other.text)}, other.known}, quoted);
    }
    if (operation == "+") {
      if (empty) return;
      ShellText other = v_.text(word);
      return add({{std::move(other.text)}, other.known}, quoted);
    }
    if (value && value->known && value->words.size() == 1) {
      auto changed = changed_text(
          value->words[0], rest,
          [this](std::string_view raw) -> std::optional<std::string> {
            ShellText filled = v_.text(raw);
            return filled.known ? std::optional(std::move(filled.text)) : std::nullopt;
          },
          [this](std::string_view sum) { return v_.sum(sum); }, v_.budget_);
      if (changed) return add({{std::move(*changed)}, true}, quoted);
    }
    unknown(text);
  }
  // Words into the word in hand: the first ends it, the last begins the next.
  void add(const ShellWords& value, bool quoted) {
    if (!value.known) result_.known = false;
    bool between = false;
    for (const std::string& word : value.words) {
      if (between && splits_) end_word();
      if (between && !splits_) literal(" ");
      between = true;
      if (quoted || !splits_) {
        literal(word);
      } else {
        split(word, value.known);
      }
    }
  }
  // At blanks. What stands for something that is not known, "$(date +%s)", stays in one piece.
  void split(std::string_view text, bool known) {
    const std::string_view stops = known ? kSplits : " \t\r\n$`";
    for (std::size_t at = 0; at < text.size();) {
      if (kSplits.find(text[at]) != kSplits.npos) {
        end_word();
        at = std::min(text.find_first_not_of(kSplits, at), text.size());
        continue;
      }
      const bool open = !known && (text[at] == '$' || text[at] == '`');
      const std::size_t end = open ? shell_reference_end(text, at)
                                   : std::min(text.find_first_of(stops, at), text.size());
      literal(text.substr(at, end - at));
      at = end;
    }
  }

  ShellVariables& v_;
  bool splits_;
  ShellWords result_;
  std::string word_;
  bool in_word_ = false;
  bool nothing_ = false;  // a list without words was filled into the word
};

void ShellVariables::set_text(std::string_view name, const ShellText& value, bool more) {
  if (!value.known && environment_.contains(name) && !variables_.contains(name)) return;
  budget_.bytes(value.text.size());
  budget_.steps(1);
  ShellVariable& variable = variables_[std::string(name)];
  if (!more || variable.words.empty()) {
    if (!more) variable = {};
    variable.known = value.known;
    variable.words.assign(1, value.text);
    return;
  }
  variable.known = variable.known && value.known;
  variable.supposed = false;
  if (variable.words[0].size() + value.text.size() <= kLongestText) variable.words[0] += value.text;
}

void ShellVariables::set_array(std::string_view name, ShellWords value, bool more) {
  ShellVariable& variable = variables_[std::string(name)];
  if (!more) variable = {};
  variable.known = variable.known && value.known;
  for (std::string& word : value.words) variable.words.push_back(std::move(word));
}

ShellVariables::Variables ShellVariables::saved() {
  for (const auto& [name, variable] : variables_) {
    budget_.elements(variable.words.size());
    for (const std::string& word : variable.words) budget_.bytes(word.size());
  }
  return variables_;
}

void ShellVariables::restore(Variables before) {
  for (auto& [name, variable] : before) {
    const auto now = variables_.find(name);
    variable.used = variable.used || (now != variables_.end() && now->second.used);
  }
  variables_ = std::move(before);
}

bool ShellVariables::suppose_empty(const std::string& name) {
  // What Slurm, MPI, torchrun and their like set on the nodes.
  constexpr std::array<std::string_view, 13> kLaunchers{"SLURM", "PMI",  "OMPI",  "PET_", "MASTER",
                                                        "WORLD", "RANK", "LOCAL", "NODE", "NNODES",
                                                        "NPROC", "HOST", "CUDA"};
  const bool by_launcher = std::ranges::any_of(
      kLaunchers, [&](std::string_view begins) { return name.starts_with(begins); });
  const bool is_name = !name.empty() && shell_name_length(name) == name.size();
  if (by_launcher || !is_name || find(name) != nullptr) return false;
  empty_.insert(name);
  variables_[name] = {.words = {""}, .used = true, .supposed = true};
  return true;
}

const ShellVariable* ShellVariables::find(std::string_view name) {
  const auto known = variables_.find(name);
  if (known != variables_.end()) {
    known->second.used = true;
    return &known->second;
  }
  const auto given = environment_.find(name);
  if (given == environment_.end()) return nullptr;
  taken_.insert(given->first);
  return &variables_.emplace(given->first, ShellVariable{{given->second}, true, true})
              .first->second;
}

ShellWords ShellVariables::words(std::string_view raw) {
  return ShellFiller(*this, true).fill(raw);
}

ShellText ShellVariables::text(std::string_view raw) {
  ShellWords filled = ShellFiller(*this, false).fill(raw);
  return {fmt::format("{}", fmt::join(filled.words, " ")), filled.known};
}

std::optional<std::int64_t> ShellVariables::sum(std::string_view expression) {
  const ShellText filled = text(expression);
  return shell_sum(filled.text, [this](std::string_view name) -> std::optional<std::string> {
    budget_.steps(kStepsOfName);  // its text is read as a sum in turn
    const ShellVariable* known = find(name);
    if (known == nullptr || !known->known || known->words.size() != 1) return std::nullopt;
    return known->words[0];
  });
}

}  // namespace weir
