// What explains a plan, as tables for people: its critical path, and what one change would bring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/explain/critical_path.hpp"
#include "sim/explain/what_if.hpp"

namespace weir {

void print_critical_path(const CriticalPath& path, Nanoseconds step);
void print_what_if(const std::string& title, const std::vector<WhatIf>& rows);

}  // namespace weir
