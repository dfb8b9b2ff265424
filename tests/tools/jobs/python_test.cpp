// Python files of settings, followed without being run.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/plan/complaint.hpp"
#include "tools/jobs/python/evaluate.hpp"

namespace weir::python_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PythonResult result(const std::string& body, const std::string& before = "") {
  const PythonFile file = read_python(before + "def f():\n" + body, "jobs.py");
  return call_python(file, "f");
}
// What `return EXPRESSION` comes to, as Python writes it.
std::string value(const std::string& expression) {
  return to_string(result("    return " + expression + "\n").value);
}

TEST(Python, Literals) {
  EXPECT_EQ(value("1_168_251"), "1168251");
  EXPECT_EQ(value("0x10"), "16");
  EXPECT_EQ(value("0.9e-4"), "9e-05");
  EXPECT_EQ(value("-3"), "-3");
  EXPECT_EQ(value("'a' \"b\" '''c\nd'''"), "\"abc\\nd\"");
  EXPECT_EQ(value(R"(r'\.')"), R"("\\.")");
  EXPECT_EQ(value("[1, (2, 3.5), None, True]"), "[1, [2, 3.5], None, True]");
  EXPECT_EQ(value("{'a': 1, **{'b': 2}}"), "{a: 1, b: 2}");
  EXPECT_EQ(value("f'{x}'"), "f'{x}'");  // not known: as it stands there
}

// 2 + 3 x 4 = 14; -7 // 2 = -4 and -7 % 2 = 1, as Python rounds down; 2 ** 3 ** 2 = 2 ** 9.
TEST(Python, ArithmeticByItsPrecedence) {
  EXPECT_EQ(value("2 + 3 * 4"), "14");
  EXPECT_EQ(value("8 * 2048 // 1024 - 1"), "15");
  EXPECT_EQ(value("-7 // 2"), "-4");
  EXPECT_EQ(value("-7 % 2"), "1");
  EXPECT_EQ(value("2 ** 3 ** 2"), "512");
  EXPECT_EQ(value("7 / 2"), "3.5");
  EXPECT_EQ(value("1 if not (2 > 3 or 'x' in 'abc') and 3 not in [1] else 0"), "1");
  EXPECT_EQ(value("9223372036854775807 + 1"), "9223372036854775807 + 1");  // not wrapped round
  EXPECT_EQ(value("1 // 0"), "1 // 0");
  EXPECT_EQ(value("N + 1"), "N + 1");
}

TEST(Python, CallsStandForObjectsWhoseFieldsAreAssigned) {
  const PythonResult whole =  // its heap has the objects
      result(
          "    c = base(1, a=Inner.Config(x=2))\n    c.a.y = SIZE // 2\n    d = c.a\n"
          "    d.z, c.w = 5, [n for n in range(3)]\n    c.new.deep = 7\n    return c\n",
          "SIZE: int = 64\n");
  const PythonValue& made = whole.value;
  EXPECT_EQ(made.object()->callee, "base");
  EXPECT_EQ(to_string(*made.at("a")), "Inner.Config(x=2, y=32, z=5)");
  EXPECT_EQ(to_string(*made.at("new.deep")), "7");
  EXPECT_EQ(to_string(*made.at("w")), "[n for n in range(3)]");
  EXPECT_EQ(made.at("a.none"), nullptr);
}

TEST(Python, FollowsTheFilesOwnFunctions) {
  const PythonResult made =
      result("    c = other(steps=3)\n    widen(c)\n    return c\n",
             "def other(*, steps: int = 1, size=2) -> Config:\n    \"\"\"Text.\"\"\"\n"
             "    return Config(steps=steps, size=size)\n"
             "def widen(c):\n    c.size *= 10\n");
  EXPECT_EQ(to_string(made.value), "Config(size=20, steps=3)");
  EXPECT_THAT(made.not_followed, IsEmpty());
}

// A job three folders deep in a package takes a function from beside its folder's parent, where it
// is imported under another name from a third file, whose own import leads to the fourth beside it.
// Paths are seen from the job's folder.
TEST(Python, FollowsFunctionsThroughOtherFiles) {
  const std::map<std::string, std::string> files{
      {"../common.py", "from top.recipes.all import llama_8b as base\n"},
      {"../../recipes/all.py", "from .deep import llama_8b_16gpu as llama_8b, NAME\n"},
      {"../../recipes/deep.py",
       "NAME = 'a/b'\nSIZE = 1\ndef llama_8b_16gpu():\n    return Config(layers=32)\n"}};
  const PythonFiles open = [&](const std::string& path) -> std::optional<std::string> {
    std::string seen = std::filesystem::path(path).lexically_normal().string();
    // The job is in top/speed/b200.
    if (seen.starts_with("../../../top/")) seen = "../../" + seen.substr(13);
    if (seen.starts_with("../../speed/")) seen = "../" + seen.substr(12);
    const auto found = files.find(seen);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  const auto returned = [&](const std::string& import, const std::string& function) {
    const PythonFile file =
        read_python(import + "\ndef f():\n    return " + function + "()\n", "job.py");
    return to_string(call_python(file, "f", open).value);
  };
  EXPECT_EQ(returned("from top.speed.common import base", "base"), "Config(layers=32)");
  EXPECT_EQ(returned("from ..common import base", "base"), "Config(layers=32)");
  EXPECT_EQ(returned("from top.recipes.deep import llama_8b_16gpu as b", "b"), "Config(layers=32)");
  EXPECT_EQ(returned("from recipes.all import llama_8b", "llama_8b"), "Config(layers=32)");
  EXPECT_EQ(returned("from top.recipes.all import none", "none"), "none()");
  EXPECT_EQ(returned("from top.nowhere import base", "base"), "base()");
  // The name of a checkpoint too, also by way of a third file; numbers may be others by then.
  const auto constant = [&](const std::string& import) {
    const PythonFile file = read_python(import + "\ndef f():\n    return X\n", "job.py");
    return to_string(call_python(file, "f", open).value);
  };
  EXPECT_EQ(constant("from top.recipes.deep import NAME as X"), "\"a/b\"");
  EXPECT_EQ(constant("from recipes.all import NAME as X"), "\"a/b\"");
  EXPECT_EQ(constant("from top.recipes.deep import SIZE as X"), "X");
}

// Each call is followed once, whatever stands around it.
TEST(Python, ACallThatChangesWhatItIsGivenIsMadeOnce) {
  const std::string before = "def bump(c):\n    c.n = c.n * 2\n    return c\n";
  for (const char* body :
       {"    bump(c)\n", "    Foo.a(bump(c)).b()\n", "    y = Foo.a(bump(c)).b().lower()\n",
        "    print(bump(c))\n", "    y = bump(c).lower().lower().lower()\n"}) {
    const PythonResult made =
        result("    c = C(n=1)\n" + std::string(body) + "    return c.n\n", before);
    EXPECT_EQ(to_string(made.value), "2") << body;
  }
}

// Of several imports of a function the last one counts, and it binds the name behind "as" alone; a
// function's own import is no other's. What two imports bind is no constant.
TEST(Python, NamesAreBoundByTheirLastImport) {
  const std::map<std::string, std::string> files{
      {"l1.py", "A = 'a/1'\ndef g():\n    return 1\n"},
      {"l2.py", "A = 'a/2'\ndef g():\n    return 2\n"},
      // Each imports the other: what is asked for while it is read is found afterwards.
      {"va.py", "from vb import k\nX = k()\ndef helper():\n    return k()\n"},
      {"vb.py",
       "def k():\n    return 2\nfrom va import helper\nZ = helper()\ndef g():\n"
       "    return helper()\n"}};
  const PythonFiles open = [&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  const auto value = [&](const std::string& before, const std::string& what,
                         const std::string& in = "") {
    const PythonFile file =
        read_python(before + "def f():\n" + in + "    return " + what + "\n", "job.py");
    return to_string(call_python(file, "f", open).value);
  };
  EXPECT_EQ(value("from l2 import A\n", "A"), "\"a/2\"");
  EXPECT_EQ(value("from l2 import A as B\n", "B"), "\"a/2\"");
  EXPECT_EQ(value("from l2 import A as B\n", "A"), "A");
  EXPECT_EQ(value("from l1 import A\nfrom l2 import A\n", "A"), "A");
  EXPECT_EQ(value("from l2 import A\n", "A", "    from l1 import A\n"), "A");
  EXPECT_EQ(value("from l1 import g\nfrom l2 import g\n", "g()"), "2");
  EXPECT_EQ(value("from l1 import g\ndef h():\n    from l2 import g\n", "g()"), "1");
  EXPECT_EQ(value("from vb import g\n", "g()"), "2");
}

// A comprehension's name is its own, and an outer one of that name is as it was.
TEST(Python, AComprehensionsNameIsGoneBehindIt) {
  EXPECT_EQ(
      to_string(result("    x = 5\n    y = [x + 1 for x in [1, 2]]\n    return [x, y]\n").value),
      "[5, [2, 3]]");
  EXPECT_EQ(to_string(result("    y = [z for z in [1]]\n    return z\n").value), "z");
}

// A field that an object has, of its own or given; of one that it has not nothing is known.
TEST(Python, AFieldByItsName) {
  EXPECT_EQ(to_string(result("    c = C(n=2)\n    c.m = 1\n"
                             "    return [getattr(c, 'n', 1), getattr(c, 'm', 0) or 0, "
                             "getattr(c, 'k', 5)]\n")
                          .value),
            "[2, 1, getattr(C(m=1, n=2), \"k\", 5)]");
}

// As a table of layouts by K and v is written.
TEST(Python, DictionariesOfTuples) {
  EXPECT_EQ(value("{(4, 1): 'a', (4, 2): ['b'] * 3}[(4, 2)]"), "[\"b\", \"b\", \"b\"]");
  EXPECT_EQ(value("(4, 3) in {(4, 1): 1}"), "False");
  EXPECT_EQ(value("[['e'] + ['t'] * 2] + [['t']] * 2"),
            "[[\"e\", \"t\", \"t\"], [\"t\"], [\"t\"]]");
  EXPECT_EQ(value("[1] * 100000000"), "[1] * 100000000") << "too long to be written out";
}

TEST(Python, ListsOfLists) {
  EXPECT_EQ(value("[list(x) for x in [[1, 1], [3]]]"), "[[1, 1], [3]]");
  EXPECT_EQ(value("[2 * n for n in (1, 2)]"), "[2, 4]");
  const std::string body = "    n = 7\n    a = [n for n in [1, 2]]\n    return C(n=n, a=a)\n";
  EXPECT_EQ(to_string(result(body).value), "C(a=[1, 2], n=7)");
  for (const char* unknown :
       {"[n for n in range(3)]", "[n for n in [1, 2] if n]", "[k for k, v in [[1, 2]]]"})
    EXPECT_EQ(value(unknown), unknown);
}

TEST(Python, PlacesOfAModule) {
  EXPECT_EQ(python_places_of("..a", "x/y/").front(), "x/y/../a.py");
  const auto places = python_places_of("a.b", "");
  EXPECT_EQ(places.front(), "a/b.py");
  EXPECT_EQ(places[1], "a/b/__init__.py");
  EXPECT_EQ(places[2], "../a/b.py");
  // A name alone may be many a file: none above the folder is taken for it.
  EXPECT_EQ(places.back(), "b/__init__.py");
}

// Only what is taken, where that can be known; else both sides' values are not.
TEST(Python, BranchesAndLoops) {
  const PythonResult made = result(
      "    c = C()\n    if 1 < 2:\n        c.a = 1\n    else:\n        c.a = 2\n"
      "    if torch.cuda.is_available():\n        c.b = 3\n    elif c.a:\n        c.b = 4\n"
      "    for i in range(9):\n        c.d = i\n    with scope():\n        c.e = 5\n"
      "    tweak(c)\n    assert c.a\n    return c\n");
  EXPECT_EQ(to_string(*made.value.at("a")), "1");
  EXPECT_NE(made.value.at("b")->unknown(), nullptr);
  EXPECT_NE(made.value.at("d")->unknown(), nullptr);
  EXPECT_EQ(to_string(*made.value.at("e")), "5");
  EXPECT_THAT(made.not_followed,
              ElementsAre("line 7: if torch.cuda.is_available(): not known here",
                          "line 11: a loop, or what catches an error: not followed",
                          "line 15: tweak(c): not followed"));
}

TEST(Python, NothingOfItIsRun) {
  const PythonResult made = result("    return C(a=open('x', 'w'), b=__import__('os'))\n");
  EXPECT_EQ(to_string(made.value), "C(a=open(\"x\", \"w\"), b=__import__(\"os\"))");
}

TEST(Python, FunctionsThatGiveAConfiguration) {
  const PythonFile file = read_python(
      "from torchtitan.models.llama3 import model_registry\n@decorated(1)\n"
      "def a() -> Trainer.Config:\n    pass\ndef _b():\n    pass\ndef c(n):\n    pass\n"
      "class D:\n    def e(self): return 1\ndef g(n=1):\n    return 2\n"
      "def h() -> int: return 3\n",
      "jobs.py");
  EXPECT_THAT(python_functions(file, {"Trainer.Config"}), ElementsAre("a", "g"));
  EXPECT_EQ(python_import_of(file, "model_registry"), "torchtitan.models.llama3");
  EXPECT_EQ(python_import_of(file, "Trainer"), "");
}

TEST(Python, RefusesInOneLine) {
  const auto line = [](const std::string& text) {
    return complaint([&] { static_cast<void>(call_python(read_python(text, "jobs.py"), "f")); });
  };
  EXPECT_EQ(line("def f(1):\n  return 1\n"),
            "jobs.py: line 1: no Python that is understood: expected a parameter");
  EXPECT_EQ(line("def f():\nreturn 1\n"),
            "jobs.py: line 2: no Python that is understood: expected an indented block");
  EXPECT_EQ(line("x = (1,\n"), "jobs.py: line 2: no Python: a bracket is never closed");
  EXPECT_EQ(line("x = 'a\n"), "jobs.py: line 1: no Python: a string is open");
  EXPECT_EQ(line("x = 1\n"), "jobs.py: f: is no function of this file");
  EXPECT_EQ(line("def f():\n  return f()\n"),
            "jobs.py: f: calls itself, or too deep to be followed");
  EXPECT_THAT(line("x = " + std::string(5000, '(') + std::string(5000, ')')),
              HasSubstr("brackets nested less deep"));
  std::string sum = "x = 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_THAT(line(sum), HasSubstr("an expression of fewer operators"));
}

}  // namespace
}  // namespace weir::python_test
