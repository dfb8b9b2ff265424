// `plan --from torch`: the user's own module, read and measured by the user's own Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plan/job/source_job.hpp"
#include "plan/words/dtype.hpp"
#include "tools/app/shared/session.hpp"

namespace weir::app {

struct TorchModelRequest {
  std::string build;             // FILE.py:FUNCTION or PACKAGE:FUNCTION
  std::string python;            // "python3"
  std::vector<int> batch_sizes;  // samples of a micro-batch to measure
  int crossing = 1;              // tensors that may cross where a stage ends
  std::filesystem::path output;  // of the plan: the model and the costs are written beside it
};

struct TorchModel {
  std::filesystem::path model, costs;  // weir.layers/1 and weir.costs/1
  Dtype dtype = Dtype::fp32;           // of the module's weights
  SourceJob job;                       // with the file's text, which an exported script runs
};

// Starts `python -m weir.torch_model`. Throws MissingComponent where that Python lacks PyTorch, the
// package or itself, UsageError and InputError where it refuses the module, each with its own line.
[[nodiscard]] TorchModel read_torch_model(const TorchModelRequest& request, const Session& session);

}  // namespace weir::app
