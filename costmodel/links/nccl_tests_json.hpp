// The JSON form of nccl-tests' results (-J).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "costmodel/links/nccl_test.hpp"

namespace weir {

[[nodiscard]] std::vector<NcclTest> read_nccl_tests_json(const std::string& text,
                                                         const std::string& file);

}  // namespace weir
