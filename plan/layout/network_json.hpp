// Networks in layout files ("weir.layout/1"): "layers" in place of "tensors" and "einsums".
//
//   "dimensions": [{"name": "batch", "symbol": "b", "size": 64}, ...],
//   "layers": [{"name": "block", "repeat": 12,
//               "tensors": ["x[batch, hidden]", "weight w[hidden, ffn]", ...],
//               "operations": ["n = norm(x gain) over hidden", "u = n w", ...]}, ...],
//   "layouts": [{"name": "both", "mesh": [{"name": "d", "size": 2}, {"name": "m", "size": 2}],
//                "rules": "batch:d,ffn:m"}]
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plan/format/spec.hpp"
#include "plan/layout/network.hpp"
#include "plan/text/strict_json.hpp"

namespace weir::layout {

// The network of a file whose dimensions are read. Throws InputError.
[[nodiscard]] Network read_layers(JsonObject& top, std::string name,
                                  std::vector<Dimension> dimensions);

// A file that reads back as the same.
[[nodiscard]] std::string to_json(const Network& network,
                                  const std::vector<NetworkLayout>& layouts);

// The table of a layer's keys.
[[nodiscard]] std::vector<format::Section> layout_sections();

}  // namespace weir::layout
