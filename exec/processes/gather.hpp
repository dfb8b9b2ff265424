// What every process recorded of a run, brought to the leader and made one result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "exec/processes/clock_offsets.hpp"
#include "exec/processes/process_grid.hpp"
#include "exec/processes/process_record.hpp"
#include "exec/processes/processes.hpp"
#include "exec/run/run.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

struct Gathering {
  const ResolvedPlan& loaded;
  const ProcessGrid& grid;
  const RecordShape& shape;
  bool trains;  // there is memory to speak of
  Processes& processes;
};

// By each process but the leader, which gathers meanwhile.
void give_record(Processes& processes, ProcessRecord& record);

// By the leader, whose record is `own`: steps, trace, and by rank of the pipeline the peak and
// scratch memory and the devices. Clocks are joined by the samples of before and after the run, by
// process.
[[nodiscard]] RunResult gather_records(const Gathering& gathering, ProcessRecord own,
                                       const std::vector<ClockSample>& before,
                                       const std::vector<ClockSample>& after);

}  // namespace weir
