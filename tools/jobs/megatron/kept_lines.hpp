// What a plan keeps of the job that it was read from, beside its own fields: every argument as a
// line, and none of the values that were the reader's surroundings or secrets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/job/arguments.hpp"
#include "tools/jobs/job/job.hpp"
#include "tools/jobs/job/secret_names.hpp"

namespace weir {

// The environment with "${NAME}" for each value: a script that is followed with it has the names of
// what it took, where it had the values.
[[nodiscard]] ShellEnvironment names_for_values(const ShellEnvironment& environment);

// Of a job in another tool's words, whose translation has values of the environment in it and no
// names: no line is kept, and no value but those that the plan says itself.
void keep_no_lines(Job& job);

// Sets job.lines, and the values of job.arguments where they are to be others. What the plan says
// itself is kept as it was read; of the rest `named`, the job followed with names_for_values(), has
// the words. Arguments whose value is not known here or is a secret are left out, and a remark
// names them. Precondition: account_for() has filled job.arguments.
void keep_lines(const Arguments& arguments, const Arguments& named, Job& job);

}  // namespace weir
