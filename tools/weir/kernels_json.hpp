// What `weir run --kernels` says of the kernels: the table as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "traces/kernels.hpp"

namespace weir {

// Key "kernels" of weir.run/1 (docs/formats.md): `others` are the names beyond the first 20, and an
// action's idle time is that in which nothing ran.
[[nodiscard]] nlohmann::ordered_json kernels_json(const Trace& trace, const KernelTrace& kernels);

// The same for people: long names are cut in the middle.
[[nodiscard]] std::string kernels_text(const Trace& trace, const KernelTrace& kernels);

}  // namespace weir
