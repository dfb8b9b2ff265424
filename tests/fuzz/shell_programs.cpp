// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/fuzz/programs.hpp"

namespace weir::fuzz {
namespace {

class Shell {
 public:
  explicit Shell(std::uint64_t seed) : grow_(seed) {}

  std::string program() {
    std::string text = "#!/bin/bash\nPP=2 TP=1 A=4 X=(a b)\n";
    const std::size_t statements = 1 + grow_.below(12);
    for (std::size_t i = 0; i < statements; ++i) text += statement("");
    // What decides the plan is written out more often than not, so that many programs are accepted.
    return text +
           fmt::format(
               "torchrun --nproc_per_node {} pretrain_gpt.py --num-layers 8 --hidden-size 64 "
               "--num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
               "--vocab-size 1000 --micro-batch-size 1 --global-batch-size 16 "
               "--pipeline-model-parallel-size {} {}\n",
               grow_.often() ? "2" : word(), grow_.often() ? "2" : word(),
               grow_.often() ? "" : word());
  }

 private:
  std::string name() { return grow_.any({"A", "B", "C", "PP", "TP", "X", "1", "FILES"}); }
  std::string variable() { return grow_.any({"A", "B", "C", "PP", "TP", "X"}); }
  std::string literal() {
    return grow_.any({"1", "2", "0", "-1", "07", "x", "a*b", "''", "--bf16", "9223372036854775807",
                      "1e3", "a,b,c", "\"\"", "?", "[a-z]*", "é"});
  }

  std::string number() {
    if (grow_.deep()) return grow_.any({"1", "A", "B+B", "0x10", "2**62"});
    const Growth::Level deeper(grow_);
    switch (grow_.below(6)) {
      case 0:
        return name();
      case 1:
        return "$" + variable();
      case 2:
        return fmt::format("({})", number());
      case 3:
        return fmt::format("{} ? {} : {}", number(), number(), number());
      case 4:
        return fmt::format("{}{}", variable(), grow_.any({"++", "+=A", "=B", "--"}));
      default:
        return fmt::format("{} {} {}", number(),
                           grow_.any({"+", "*", "/", "%", "-", "**", "<<", "&&", "=="}), number());
    }
  }

  std::string expansion() {
    const std::string of = name();
    switch (grow_.below(10)) {
      case 0:
        return fmt::format("${{{}:-{}}}", of, word());
      case 1:
        return fmt::format("${{{}:+{}}}", of, word());
      case 2:
        return fmt::format("${{{}//{}/{}}}", of, literal(), literal());
      case 3:
        return fmt::format("${{{}{}{}}}", of, grow_.any({"%", "%%", "#", "##"}), literal());
      case 4:
        return fmt::format("${{#{}}}", of);
      case 5:
        return fmt::format("${{{}:{}:{}}}", of, number(), number());
      case 6:
        return fmt::format("${{{}[{}]}}", of, grow_.any({"@", "*", "1", "-1", "A"}));
      case 7:
        return fmt::format("${{!{}}}", of);
      case 8:
        return grow_.any({"$@", "$#", "$*", "$?", "${@:2}", "$$", "$0"});
      default:
        return "$" + of;
    }
  }

  std::string word() {
    if (grow_.deep()) return literal();
    const Growth::Level deeper(grow_);
    switch (grow_.below(8)) {
      case 0:
        return fmt::format("\"{}{}\"", expansion(), expansion());
      case 1:
        return fmt::format("$(({}))", number());
      case 2:
        return fmt::format("$({} {})", grow_.any({"echo", "expr", "seq", "basename"}), word());
      case 3:
        return word() + word();
      case 4:
      case 5:
        return expansion();
      default:
        return literal();
    }
  }

  std::string condition() {
    if (grow_.deep()) return grow_.any({"true", "false", "[ $A -gt 1 ]"});
    const Growth::Level deeper(grow_);
    switch (grow_.below(6)) {
      case 0:
        return fmt::format("[ {} {} {} ]", word(), grow_.any({"-gt", "=", "!=", "-le", "-a"}),
                           word());
      case 1:
        return fmt::format("[[ {} {} {} ]]", word(), grow_.any({"==", "=~", "<"}), word());
      case 2:
        return fmt::format("(( {} ))", number());
      case 3:
        return "! " + condition();
      case 4:
        return fmt::format("{} {} {}", condition(), grow_.any({"&&", "||"}), condition());
      default:
        return grow_.any({"true", "false", "[ -z \"$B\" ]", "[ -f run.sh ]", "f1"});
    }
  }

  std::string words() {
    std::string all;
    for (std::size_t i = grow_.below(4); i > 0; --i) all += " " + word();
    return all;
  }

  std::string assignment(const std::string& to) {
    switch (grow_.below(10)) {
      case 0:
        return fmt::format("{}+={}", to, word());
      case 1:
        return fmt::format("{}=({})", to, words());
      case 2:
        return fmt::format("{0}=(\"${{{0}[@]}}\" \"${{{0}[@]}}\")", to);
      case 3:
        return fmt::format("{}+=({})", to, words());
      case 4:
        return fmt::format("{}[{}]={}", to, number(), word());
      case 5:
        return fmt::format("{} {}={}", grow_.any({"local", "export", "declare"}), to, word());
      case 6:
        return fmt::format("printf -v {} '%s' {}", to, word());
      case 7:
        return fmt::format("let {}={}", to, grow_.any({"A+1", "B*B", "C**C"}));
      case 8:
        return fmt::format("read {} <<< {}", to, word());
      default:
        return fmt::format("{}={}", to, word());
    }
  }

  std::string simple() {
    switch (grow_.below(10)) {
      case 0:
        return fmt::format("set --{} \"$@\"", words());
      case 1:
        return "shift";
      case 2:
        return fmt::format("f{}{}", grow_.below(4), words());
      case 3:
        return "echo" + words();
      case 4:
        return "unset " + variable();
      case 5:
        return fmt::format("source {}", grow_.any({"$0", "other.sh", "./input"}));
      case 6:
        return grow_.any({"break", "continue", "return 1", "IFS=,", "exit", "set -e", ":"});
      default:
        return assignment(variable());
    }
  }

  std::string block(const std::string& before) {
    std::string text;
    for (std::size_t i = 1 + grow_.below(3); i > 0; --i) text += statement(before + "  ");
    return text;
  }

  // A line, or several, each of which begins with `before` and ends.
  std::string statement(const std::string& before) {
    if (grow_.deep()) return before + simple() + "\n";
    const Growth::Level deeper(grow_);
    const std::string& b = before;
    switch (grow_.below(16)) {
      case 0:
        return fmt::format("{0}if {1}; then\n{2}{0}elif {3}; then\n{4}{0}else\n{5}{0}fi\n", b,
                           condition(), block(b), condition(), block(b), block(b));
      case 1:
        return fmt::format("{0}for {1} in{2}; do\n{3}{0}done\n", b, variable(), words(), block(b));
      case 2:
        return fmt::format("{0}while {1}; do\n{2}{0}done\n", b, condition(), block(b));
      case 3:
        return fmt::format("{0}for ((A=0; A<{1}; A++)); do\n{2}{0}done\n", b, number(), block(b));
      case 4:
        return fmt::format("{0}case {1} in\n{0} {2}) {3} ;;\n{0} *)\n{4}{0} ;;\n{0}esac\n", b,
                           word(), literal(), simple(), block(b));
      case 5:
        return fmt::format("{0}f{1}() {{\n{2}{0}}}\n", b, grow_.below(4), block(b));
      case 6:
        return fmt::format("{0}{{\n{1}{0}}}\n", b, block(b));
      case 7:
        return fmt::format("{0}(\n{1}{0})\n", b, block(b));
      case 8:
        return fmt::format("{}{} && {} || {}\n", b, condition(), simple(), simple());
      case 9:
        return fmt::format("{}cat <<EOF\n{}\nEOF\n", b, expansion());
      default:
        return b + simple() + (grow_.seldom() ? "; " + simple() : "") + "\n";
    }
  }

  Growth grow_;
};

}  // namespace

std::string shell_program(std::uint64_t seed) { return Shell(seed).program(); }

}  // namespace weir::fuzz
