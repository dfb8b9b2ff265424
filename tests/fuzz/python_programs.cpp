// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/fuzz/programs.hpp"

namespace weir::fuzz {
namespace {

class Python {
 public:
  explicit Python(std::uint64_t seed) : grow_(seed) {}

  // Statements within a function, one level in.
  std::string body() {
    std::string text;
    for (std::size_t i = grow_.below(10); i > 0; --i) text += statement("    ");
    return text;
  }
  // Statements of the module: names that the job's function may use.
  std::string top() {
    std::string text = "a = 1\nb = [1, 2]\no = X()\n";
    for (std::size_t i = grow_.below(6); i > 0; --i) text += statement("");
    return text;
  }
  // A value of the job; `usual`, more often than not, so that many programs are accepted.
  std::string value(std::string_view usual) {
    return grow_.often() ? std::string(usual) : expression();
  }

 private:
  std::string name() { return grow_.any({"a", "b", "o", "n", "cfg", "k"}); }
  std::string target() {
    switch (grow_.below(6)) {
      case 0:
        return fmt::format("{}.{}", name(), name());
      case 1:
        return fmt::format("{}[{}]", name(), expression());
      case 2:
        return fmt::format("{}, {}", name(), name());
      default:
        return name();
    }
  }
  std::string atom() {
    return grow_.any({"1",    "0",     "-1",     "2.5",    "'x'", "\"y\" 'z'", "None",
                      "True", "a",     "b",      "o",      "n",   "cfg",       "[]",
                      "{}",   "1_000", "10**30", "f'{a}'", "...", "b'x'"});
  }
  std::string call() {
    switch (grow_.below(8)) {
      case 0:
        return fmt::format(
            "{}({})", grow_.any({"len", "range", "str", "int", "sum", "sorted", "list", "set"}),
            expression());
      case 1:
        return fmt::format("{}({}, {})", grow_.any({"min", "max"}), expression(), expression());
      case 2:
        return fmt::format("copy.deepcopy({})", expression());
      case 3:
        return fmt::format("X({}, k={})", expression(), expression());
      case 4:
        return fmt::format("dataclasses.replace({}, a={})", name(), expression());
      case 5:
        return fmt::format("f{}({})", grow_.below(3), expression());
      case 6:
        return fmt::format("{}.{}({})", name(),
                           grow_.any({"append", "get", "update", "extend", "format", "join"}),
                           expression());
      default:
        return fmt::format("dict(k={}, **{})", expression(), name());
    }
  }
  std::string expression() {
    if (grow_.deep()) return atom();
    const Growth::Level deeper(grow_);
    switch (grow_.below(14)) {
      case 0:
        return fmt::format("{} {} {}", expression(),
                           grow_.any({"+", "*", "-", "//", "%", "**", "<<", "|", "@"}),
                           expression());
      case 1:
        return fmt::format("{} {} {}", expression(),
                           grow_.any({"<", "==", "in", "not in", "is", "and", "or"}), expression());
      case 2:
        return fmt::format("[{}, {}]", expression(), expression());
      case 3:
        return fmt::format("{{{}: {}, 'k': {}}}", expression(), expression(), expression());
      case 4:
        return fmt::format("[{} for n in {} if {}]", expression(), expression(), expression());
      case 5:
        return fmt::format("({} if {} else {})", expression(), expression(), expression());
      case 6:
        return fmt::format("{}.{}", name(), name());
      case 7:
        return fmt::format("{}[{}]", name(), expression());
      case 8:
        return fmt::format("{}[{}:{}]", name(), expression(), expression());
      case 9:
        return fmt::format("({}, *{})", expression(), name());
      case 10:
        return fmt::format("lambda n: {}", expression());
      case 11:
      case 12:
        return call();
      default:
        return atom();
    }
  }
  std::string simple() {
    switch (grow_.below(10)) {
      case 0:
        return fmt::format("{} {} {}", name(), grow_.any({"+=", "*=", "-=", "|="}), expression());
      case 1:
        return fmt::format("{0}.{1} = {0}", name(), name());
      case 2:
        return fmt::format("{0} = {0} + {0}", name());
      case 3:
        return grow_.any({"pass", "break", "continue", "return a", "global a", "raise X"});
      case 4:
        return fmt::format("del {}", target());
      case 5:
        return fmt::format("assert {}", expression());
      case 6:
        return call();
      default:
        return fmt::format("{} = {}", target(), expression());
    }
  }
  std::string block(const std::string& before) {
    std::string text;
    for (std::size_t i = 1 + grow_.below(3); i > 0; --i) text += statement(before + "    ");
    return text;
  }
  std::string statement(const std::string& before) {
    if (grow_.deep()) return before + simple() + "\n";
    const Growth::Level deeper(grow_);
    const std::string& b = before;
    switch (grow_.below(14)) {
      case 0:
        return fmt::format("{0}if {1}:\n{2}{0}elif {3}:\n{4}{0}else:\n{5}", b, expression(),
                           block(b), expression(), block(b), block(b));
      case 1:
        return fmt::format("{}for n in {}:\n{}", b, expression(), block(b));
      case 2:
        return fmt::format("{}while {}:\n{}", b, expression(), block(b));
      case 3:
        return fmt::format("{}def f{}(a, k={}, *b, **o) -> None:\n{}", b, grow_.below(3),
                           expression(), block(b));
      case 4:
        return fmt::format("{0}try:\n{1}{0}except X as n:\n{2}", b, block(b), block(b));
      case 5:
        return fmt::format("{}with {} as n:\n{}", b, expression(), block(b));
      case 6:
        return fmt::format("{0}@f0\n{0}class X(Y):\n{1}", b, block(b));
      case 7:
        return fmt::format(
            "{}{}\n", b,
            grow_.any({"import copy", "from . import f0 as f1", "from .other import *"}));
      default:
        return b + simple() + (grow_.seldom() ? "; " + simple() : "") + "\n";
    }
  }

  Growth grow_;
};

}  // namespace

std::string torchtitan_program(std::uint64_t seed) {
  Python python(seed);
  return fmt::format(
      "from torchtitan.models.llama3 import model_registry\nimport copy, dataclasses\n{}"
      "def llama3_8b() -> Trainer.Config:\n"
      "    cfg = Trainer.Config(model_spec=model_registry('8B'))\n{}"
      "    cfg.training = TrainingConfig(local_batch_size=4, seq_len=1024, steps={})\n"
      "    cfg.parallelism = ParallelismConfig(pipeline_parallel_degree={})\n"
      "    return cfg\n",
      python.top(), python.body(), python.value("10"), python.value("2"));
}

std::string bridge_program(std::uint64_t seed) {
  Python python(seed);
  return fmt::format(
      "from megatron.bridge.recipes.common import _pretrain_common\nimport copy, dataclasses\n{}"
      "def small_pretrain_config() -> ConfigContainer:\n    cfg = _pretrain_common()\n{}"
      "    cfg.model = GPTModelProvider(num_layers=8, hidden_size=64, num_attention_heads=4, "
      "seq_length=32, vocab_size=128)\n"
      "    cfg.model.pipeline_model_parallel_size = {}\n"
      "    cfg.train.global_batch_size, cfg.train.micro_batch_size = {}, 1\n"
      "    return cfg\n",
      python.top(), python.body(), python.value("2"), python.value("16"));
}

}  // namespace weir::fuzz
