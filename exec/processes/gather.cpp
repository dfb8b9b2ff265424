// Records come in the order of processes; peaks are those of the fullest replica.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace weir {
namespace {

constexpr int kRecordTag = 2;

// Devices are numbered over all hosts.
class DeviceNumbers {
 public:
  void add(std::vector<DeviceUse>& devices, std::optional<DeviceUse> use, const std::string& host) {
    if (!use) return;
    const auto number = static_cast<int>(numbers_.size());
    use->device = numbers_.try_emplace({host, use->device}, number).first->second;
    devices.push_back(std::move(*use));
  }

 private:
  std::map<std::pair<std::string, int>, int> numbers_;  // by host and its own number there
};

void describe(const Gathering& gathering, const std::vector<ClockLine>& lines, Trace& trace) {
  const Processes& processes = gathering.processes;
  std::set<std::string> hosts;
  std::int64_t worst = 0;
  for (int process = 0; process < processes.count(); ++process) {
    hosts.insert(processes.location(process).host);
    worst = std::max(worst, lines[process].uncertainty_ns());
  }
  trace.info["processes"] = fmt::format("{} on {} host{}, {}", processes.count(), hosts.size(),
                                        hosts.size() == 1 ? "" : "s", processes.description());
  trace.info["clock"] =
      worst == 0 ? "one clock"
                 : fmt::format("clocks joined by ping-pong, each to within {} ns", worst);
  const Plan& plan = gathering.loaded.plan;
  if (plan.dp > 1) trace.info["replica"] = fmt::format("0 of {}", plan.dp);
  if (plan.tp > 1) trace.info["tensor"] = fmt::format("0 of {}", plan.tp);
}

}  // namespace

void give_record(Processes& processes, ProcessRecord& record) {
  processes.wait(processes.start_send(0, kRecordTag, std::as_bytes(std::span(record.numbers()))));
}

RunResult gather_records(const Gathering& gathering, ProcessRecord own,
                         const std::vector<ClockSample>& before,
                         const std::vector<ClockSample>& after) {
  const auto& [loaded, grid, shape, trains, processes] = gathering;
  const Program& program = loaded.program;
  // Records stand in the order of processes: ranks within a place, places within a replica.
  std::vector<ProcessRecord> records{std::move(own)};
  std::vector<ClockLine> lines{{}};
  for (int process = 1; process < processes.count(); ++process) {
    records.emplace_back(program, grid.rank(process), shape);
    processes.wait(processes.start_receive(
        process, kRecordTag, std::as_writable_bytes(std::span(records.back().numbers()))));
    lines.push_back({before[process], after[process]});
  }
  RunResult result = merge(program, shape, records, lines, loaded.plan.tp);
  DeviceNumbers numbers;
  for (int rank = 0; rank < program.shape().ranks && trains; ++rank) {
    Bytes peak{0};
    // The same rank everywhere: memory must suffice for the fullest.
    for (auto p = static_cast<std::size_t>(rank); p < records.size(); p += program.shape().ranks)
      peak = std::max(peak, records[p].peak());
    result.peak_memory.push_back(peak);
    result.scratch.push_back(records[rank].scratch());
    numbers.add(result.devices, records[rank].device_use(), processes.location(rank).host);
  }
  describe(gathering, lines, result.trace);
  return result;
}

}  // namespace weir
