// Ctrl-C and SIGTERM as a question that work may ask, instead of its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace weir {

// True once one of these signals came. Asked for the first time it begins to listen; until then
// they end the process as ever, and so does the second one of a kind.
[[nodiscard]] std::function<bool()> stop_on_signals();

}  // namespace weir
