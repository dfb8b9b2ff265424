// What nccl-tests printed: the times of messages and collectives by size. Reads its text (columns
// by the header row, so that old and new versions do) and its JSON (-J). Of a JSON file's
// environment nothing is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "costmodel/links/nccl_test.hpp"

namespace weir {

// Throws InputError: no results, a test that failed, wrong values, times of the CPU.
[[nodiscard]] std::vector<NcclTest> read_nccl_tests(const std::string& text,
                                                    const std::string& file);

}  // namespace weir
