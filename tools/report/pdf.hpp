// A drawing as a one-page PDF for print: light, its font embedded, compressed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/report/vector.hpp"

namespace weir {

[[nodiscard]] std::string to_pdf(const Drawing& drawing);

}  // namespace weir
