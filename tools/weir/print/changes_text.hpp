// What explains a plan, as tables for people: its critical path, what one change would bring, what
// it was preferred to, and what less memory costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/explain/critical_path.hpp"
#include "sim/explain/rejected.hpp"
#include "sim/explain/what_if.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

// For programs the probability, where it is in doubt.
[[nodiscard]] Cell fit_cell(const Forecast& forecast);

void print_critical_path(Printout& out, const CriticalPath& path, Nanoseconds step);
// `stack`: by name; below the others stands what it has not.
void print_what_if(Printout& out, const std::string& title, const std::vector<WhatIf>& rows,
                   const std::string& stack);

void print_rejected(Printout& out, const std::vector<Rejected>& rows);
void print_outside(Printout& out, const std::vector<Rejected>& rows, const std::string& stack);
void print_front(Printout& out, const std::vector<Ranked>& front);

}  // namespace weir
