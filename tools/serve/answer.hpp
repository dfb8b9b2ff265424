// What a request is answered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

}  // namespace weir
