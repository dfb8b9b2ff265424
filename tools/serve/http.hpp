// The server: who may ask, how much and how long, and which answer a path has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/serve/serve_request.hpp"
#include "tools/serve/workplace.hpp"

namespace weir {

// Listens on 127.0.0.1 until a signal comes; its number. Throws RunFailed where the port is taken.
[[nodiscard]] int serve_http(Workplace& workplace, const ServeRequest& request);

}  // namespace weir
