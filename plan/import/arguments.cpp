// A small reader of shell: text to words, words to commands, and the arguments among the words.
// SPDX-License-Identifier: Apache-2.0
#include "plan/import/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

constexpr int kDeepestVariable = 8;  // variables in variables
constexpr std::string_view kBlanks = " \t\r\n";

bool name_character(char c, bool first) {
  return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (!first && c >= '0' && c <= '9');
}

std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && name_character(text[length], length == 0)) ++length;
  return length;
}

bool holds_arguments(std::string_view text) {
  return text.starts_with("--") || text.find(" --") != text.npos || text.find("\n--") != text.npos;
}

class Script {
 public:
  Script(std::string_view text, const std::string& file, Variables& variables, int depth)
      : text_(text), file_(file), variables_(variables), depth_(depth) {}

  std::vector<std::vector<std::string>> commands() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' && !in_word_) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\\' && at_ + 1 < text_.size()) {
        escaped();
      } else if (c == '\'' || c == '"') {
        quoted(c);
      } else if (c == '<' && text_.substr(at_, 2) == "<<") {
        here_document();
      } else if (c == '$') {
        append(variable());  // not split at blanks: what holds arguments comes back empty
      } else if (std::string_view(" \t\r\n;&|()`").find(c) != std::string_view::npos) {
        end_word();
        if (std::string_view("\n;&|").find(c) != std::string_view::npos) end_command();
        ++at_;
        if (c == '\n') {
          ++line_;
          skip_here_document();
        }
      } else {
        append(std::string_view(&text_[at_++], 1));
      }
    }
    end_word();
    end_command();
    return std::move(commands_);
  }

 private:
  void append(std::string_view more) {
    word_ += more;
    in_word_ = true;
  }
  void escaped() {
    if (text_[at_ + 1] == '\r' && at_ + 2 < text_.size() && text_[at_ + 2] == '\n') ++at_;
    if (text_[at_ + 1] == '\n') {  // the command goes on in the next line
      end_word();
      ++line_;
    } else {
      append(text_.substr(at_ + 1, 1));
    }
    at_ += 2;
  }
  void quoted(char quote) {
    const int opened = line_;
    in_word_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote;) {
      if (text_[at_] == '\n') ++line_;
      if (quote == '"' && text_[at_] == '$') {
        append(variable());
        continue;
      }
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        if (text_[at_] == '\n') {
          append(" ");
          ++line_;
          ++at_;
          continue;
        }
      }
      append(text_.substr(at_++, 1));
    }
    if (at_ == text_.size())
      throw InputError(file_, fmt::format("line {}", opened), "a quote is not closed");
    ++at_;
  }
  // "<<WORD", "<<-WORD", "<<'WORD'": the lines after this one, up to WORD alone on a line, are
  // data. "<<<" is not.
  void here_document() {
    end_word();
    at_ += 2;
    if (at_ < text_.size() && text_[at_] == '<') {
      ++at_;
      return;
    }
    while (at_ < text_.size() &&
           std::string_view("-'\" ").find(text_[at_]) != std::string_view::npos)
      ++at_;
    const std::size_t length = name_length(text_.substr(at_));
    here_end_ = text_.substr(at_, length);
    at_ += length;
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) ++at_;
  }
  void skip_here_document() {
    while (!here_end_.empty() && at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      while (!line.empty() && (line.front() == '\t' || line.front() == ' ')) line.remove_prefix(1);
      while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line == here_end_) here_end_ = {};
      at_ = std::min(end + 1, text_.size());
      ++line_;
    }
    here_end_ = {};
  }
  // What stands at a '$', filled in where it is a plain variable that is known.
  std::string variable() {
    const std::size_t start = at_++;
    if (at_ < text_.size() && (text_[at_] == '{' || text_[at_] == '(')) {
      const char open = text_[at_], close = open == '{' ? '}' : ')';
      int depth = 0;
      for (; at_ < text_.size(); ++at_) {
        if (text_[at_] == open) ++depth;
        if (text_[at_] == close && --depth == 0) break;
      }
      at_ = std::min(at_ + 1, text_.size());
      const std::string_view whole = text_.substr(start, at_ - start);
      if (open == '(' || whole.size() < 4) return std::string(whole);
      const std::string_view inside = whole.substr(2, whole.size() - 3);
      const std::size_t length = name_length(inside);
      const auto known = variables_.find(inside.substr(0, length));
      const std::string_view rest = inside.substr(length);
      if (known != variables_.end() && (rest.empty() || rest.starts_with(":-")))
        return text_of(*known);
      return std::string(rest.starts_with(":-") ? rest.substr(2) : whole);
    }
    const std::size_t length = name_length(text_.substr(at_));
    const auto known = variables_.find(text_.substr(at_, length));
    at_ += length;
    if (known != variables_.end() && length > 0) return text_of(*known);
    return std::string(text_.substr(start, at_ - start));
  }
  // Arguments in a variable were read where it was set, and count once.
  static std::string text_of(const Variables::value_type& variable) {
    return holds_arguments(variable.second) ? "" : variable.second;
  }
  void end_word() {
    if (!in_word_) return;
    in_word_ = false;
    std::string word = std::exchange(word_, {});
    const std::size_t length = name_length(word);
    const bool appends = word.compare(length, 2, "+=") == 0;
    if (length == 0 || (!appends && word.compare(length, 1, "=") != 0)) {
      if (!word.empty()) command_.push_back(std::move(word));
      return;
    }
    const std::string value = word.substr(length + (appends ? 2 : 1));
    // Read here, so that arguments count although the variable may be used in ways not understood.
    if (holds_arguments(value) && depth_ < kDeepestVariable) {
      for (auto& command : Script(value, file_, variables_, depth_ + 1).commands()) {
        commands_.push_back(std::move(command));
      }
    }
    std::string& variable = variables_[word.substr(0, length)];
    if (!appends) variable.clear();
    variable += value;
  }
  void end_command() {
    if (!command_.empty()) commands_.push_back(std::exchange(command_, {}));
  }

  std::string_view text_;
  const std::string& file_;
  Variables& variables_;
  int depth_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string_view here_end_;
  std::string word_;
  bool in_word_ = false;
  std::vector<std::string> command_;
  std::vector<std::vector<std::string>> commands_;
};

std::string normal_name(std::string_view word) {
  std::string name(word.substr(2));
  std::ranges::replace(name, '_', '-');
  return name;
}

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

// A number as Python's int and float read it: digits may be grouped by '_'.
template <class Number>
std::optional<Number> parse(std::string text) {
  std::erase(text, '_');
  return whole_number<Number>(text);
}

}  // namespace

std::vector<std::vector<std::string>> shell_commands(const std::string& text,
                                                     const std::string& file) {
  Variables variables;
  return Script(text, file, variables, 0).commands();
}

Arguments::Arguments(const std::string& text, std::string file) : file_(std::move(file)) {
  for (const auto& words : shell_commands(text, file_)) {
    const std::vector<std::string> command = split_words(words);
    for (std::size_t i = 0; i < command.size();) {
      const std::string& word = command[i++];
      const auto equals = word.find('=');
      if (!word.starts_with("--") || word.size() < 3 || word[2] == '-') continue;
      Given given;
      if (equals != std::string::npos) given.values.push_back(word.substr(equals + 1));
      for (; i < command.size() && !command[i].starts_with("--"); ++i)
        given.values.push_back(command[i]);
      // The last of several counts, as for Python's argparse; that they differed is remembered.
      auto [place, fresh] = given_.try_emplace(normal_name(word.substr(0, equals)));
      given.differed = !fresh && (place->second.differed || place->second.values != given.values);
      place->second = std::move(given);
    }
  }
}

Arguments::Given* Arguments::find(std::string_view name) {
  const auto found = given_.find(name);
  if (found == given_.end()) return nullptr;
  found->second.read = true;
  return &found->second;
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
    fail(name, fmt::format("expected an integer from {} to {}, found {}", low, high,
                           given->substr(0, 40)));
  }
  return number;
}

std::int64_t Arguments::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const auto number = maybe_integer(name, low, high);
  if (!number) fail(name, "is missing");
  return *number;
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
         fmt::format("expected a number from {} to {}, found {}", low, high, given->substr(0, 40)));
  }
  return *number;
}

std::vector<std::string> Arguments::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, given] : given_) {
    if (!given.read) names.push_back(name);
  }
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
  const auto found = given_.find(name);
  return found == given_.end() ? "" : fmt::format("{}", fmt::join(found->second.values, " "));
}

void Arguments::fail(std::string_view name, const std::string& message) const {
  throw InputError(file_, fmt::format("--{}", name), message);
}

}  // namespace weir
