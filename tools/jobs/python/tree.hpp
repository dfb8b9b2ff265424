// The grammar of a Python file of settings: expressions of literals, names, attributes, calls and
// operators, and the statements that assign, return, branch and define functions. What else Python
// has is kept as the text it is, so that whoever evaluates can say what was not understood.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir {

struct PythonExpression {
  enum class Kind : std::uint8_t {
    none,
    truth,          // True or False, in `word`
    number,         // `word`
    text,           // `word`
    name,           // `word`
    attribute,      // parts[0], `word` behind the dot
    call,           // parts[0] of the others; keywords stand in `words`, "" where there is none
    subscript,      // parts[0] [parts[1]]
    list,           // parts
    tuple,          // parts
    dict,           // keys and values in turn; a key of kind `other` and no text is **
    unary,          // `word` parts[0]: - + not
    binary,         // parts[0] `word` parts[1]: arithmetic, comparisons, and, or
    conditional,    // parts[0] if parts[1] else parts[2]
    comprehension,  // [parts[0] for `word` in parts[1]]
    other           // not understood
  };
  Kind kind = Kind::other;
  std::string word;
  std::vector<PythonExpression> parts;
  std::vector<std::string> words;
  std::string source;  // on one line, for people
};

struct PythonStatement {
  enum class Kind : std::uint8_t {
    assign,    // each of `targets` = value
    change,    // targets[0] `word` value, as "+="
    evaluate,  // value, for what it does
    give_back,
    branch,  // if value: body else: otherwise
    repeat,  // body, any number of times: loops, and what catches errors
    block,   // body, once
    define,  // def word(parameters): body
    import,  // `word` is where from: "torchtitan.models.llama3"; names in `words`
    other    // nothing that assigns
  };
  Kind kind = Kind::other;
  int line = 1;
  std::string word;
  std::vector<std::string> words;
  std::vector<PythonExpression> targets;
  PythonExpression value;  // of a definition: what its annotation says it returns
  std::vector<PythonStatement> body, otherwise;

  struct Parameter {
    std::string name;
    bool has_default = false;
    PythonExpression value;
  };
  std::vector<Parameter> parameters;
};

}  // namespace weir
