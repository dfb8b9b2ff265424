// PipeDream's profiles, `graph.txt`: operators with measured times and sizes, and the edges between
// them.
//
//   node3 -- ReLU(inplace) -- forward_compute_time=1.5, backward_compute_time=1.1,
//       activation_size=4096.0, parameter_size=0.0         (one line)
//   <tab>node2 -- node3
//
// Times are milliseconds and sizes bytes, of one mini-batch of a size that the file does not tell:
// a *sample* of the model is that mini-batch. Formats in the file's field "activation_size" are a
// number or "[a; b; ...]".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/model/model.hpp"

namespace weir {

// The graph in execution order (that of the numbers), cut into timed layers where one tensor
// crosses: after an articulation point. A piece that takes more than 1/16 of the time is cut again
// where the fewest tensors cross, and those that more than the next layer reads become skips, one a
// tensor, to the last layer that reads it. Inputs are data, not layers, as in PipeDream's own
// optimizer. A backward is halved into I and W where there are parameters, and all I where there
// are none: the profile has only their sum. Throws InputError with file and line.
[[nodiscard]] Model pipedream_model(const std::string& text, const std::string& file);

}  // namespace weir
