// This machine, as Weir sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "exec/device/backend.hpp"
#include "plan/job/cluster.hpp"

namespace weir {

// "Intel(R) Xeon(R) Processor, 2 cores"; of the cuda backend "NVIDIA H200, CUDA 13.0, in " and
// that.
[[nodiscard]] std::string machine_name(BackendKind backend = BackendKind::cpu);

// What is built in, in use or not.
[[nodiscard]] Bytes host_memory();

// One node whose devices are the cores this process may use; memory shared evenly, rates rough.
[[nodiscard]] Cluster host_cluster();

// This machine as a backend's devices see it: the cores; or, of the cuda backend, `devices` equal
// shares of its GPUs, whose rates are not known. Throws MissingComponent where there is no GPU.
[[nodiscard]] Cluster local_cluster(BackendKind backend, int devices);

// Ranks that work at once unless an option says otherwise: a core each, or two shares of a GPU.
[[nodiscard]] int default_devices(BackendKind backend);

// What this build can run on.
[[nodiscard]] Backends available_backends();

// "cpu", "cuda", "synthetic"; throws UsageError.
[[nodiscard]] BackendKind parse_backend(const std::string& name);

}  // namespace weir
