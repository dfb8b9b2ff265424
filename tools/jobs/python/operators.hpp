// Python's operators and the few functions of its library that settings are written with, on values
// that are known; what is not known stays so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/jobs/bounds/budget.hpp"
#include "tools/jobs/python/value.hpp"

namespace weir {

[[nodiscard]] PythonValue python_number_value(const std::string& digits);
[[nodiscard]] PythonValue python_unary(const std::string& sign, const PythonValue& value,
                                       const std::string& source);
// What a dictionary's value is found by: a text itself, a number or a tuple of them as Python
// writes it; nullopt where it is not known.
[[nodiscard]] std::optional<std::string> python_key(const PythonValue& key);

// Unknown where either side is, or where Python would raise an error.
[[nodiscard]] PythonValue python_binary(const std::string& sign, const PythonValue& left,
                                        const PythonValue& right);
// nullopt for a function that is not known here. What it makes is the heap's.
struct PythonCall {
  const std::string& callee;
  const std::vector<PythonValue>& places;
  const std::map<std::string, PythonValue>& keywords;
};
[[nodiscard]] std::optional<PythonValue> python_builtin(const PythonCall& call, PythonHeap& heap,
                                                        Budget& budget);

// A text's .lower(); nullopt of what is no text.
[[nodiscard]] std::optional<PythonValue> python_lower(const PythonValue& value);

// PythonObject::made_from of what a method of this object makes: what the reader of a checkpoint
// was given, and what its methods make is of the same one.
[[nodiscard]] std::string python_made_from(const PythonValue& whose);

}  // namespace weir
