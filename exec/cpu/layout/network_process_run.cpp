// Each process carries out its processor's instructions; what all have to know they tell each
// other.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_process_run.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <string>

#include "exec/cpu/core.hpp"
#include "exec/cpu/kernels/matmul.hpp"
#include "exec/cpu/layout/network_plan.hpp"
#include "exec/cpu/layout/network_processor.hpp"
#include "exec/processes/all_gather.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {

std::vector<std::vector<double>> all_numbers(Processes& processes, const std::vector<double>& own) {
  std::string text(own.size() * sizeof(double), '\0');
  std::memcpy(text.data(), own.data(), text.size());
  std::vector<std::vector<double>> all;
  for (const std::string& one : all_gather(processes, text)) {
    std::vector<double>& numbers = all.emplace_back(one.size() / sizeof(double));
    std::memcpy(numbers.data(), one.data(), one.size());
  }
  return all;
}

void take_core(Processes& processes) {
  pin_to_core(processes.location(processes.index()).on_cores);
  use_one_thread();
}

NetworkProcessRun::NetworkProcessRun(const layout::Network& network,
                                     const layout::NetworkLayout& layout, Processes& processes,
                                     std::uint64_t seed)
    : network_(network),
      layout_(layout),
      processes_(processes),
      board_(network_, layout_, processes),
      plan_(std::make_unique<NetworkPlan>(network_plan(network_, layout_))) {
  assert(members(layout_, ~layout::Axes{0}) == processes.count() && "one process a processor");
  take_core(processes);
  processor_ = std::make_unique<NetworkProcessor>(network_, layout_, *plan_, board_,
                                                  processes.index(), seed);
}

NetworkProcessRun::~NetworkProcessRun() = default;

NetworkTimes NetworkProcessRun::step() {
  using Clock = std::chrono::steady_clock;
  // All begin together, so that nobody's time holds another's start.
  processes_.barrier();
  const Clock::time_point start = Clock::now();
  processor_->step();
  const Seconds step = Clock::now() - start;
  const NetworkTimes& mine = processor_->times();
  NetworkTimes times;
  const double n = processes_.count();
  for (const std::vector<double>& one :
       all_numbers(processes_, {step.count(), mine.products.count(), mine.elementwise.count(),
                                mine.exchanges.count()})) {
    times.step = std::max(times.step, Seconds(one[0]));
    times.products += Seconds(one[1] / n);
    times.elementwise += Seconds(one[2] / n);
    times.exchanges += Seconds(one[3] / n);
  }
  return times;
}

std::vector<NetworkCounts> NetworkProcessRun::counts() const {
  const NetworkCounts& mine = processor_->counts();
  std::vector<NetworkCounts> all;
  for (const std::vector<double>& one :
       all_numbers(processes_, {mine.multiply_adds, mine.exchanged_elements}))
    all.push_back({one[0], one[1]});
  return all;
}

double NetworkProcessRun::held_bytes() const {
  double sum = 0;
  for (const std::vector<double>& one : all_numbers(processes_, {processor_->held_bytes()}))
    sum += one[0];
  return sum;
}

const std::vector<NodeBlocks>& NetworkProcessRun::nodes() const { return processor_->nodes(); }

NetworkDifference NetworkProcessRun::difference(const NetworkRun& whole) const {
  const std::vector<TensorApart> mine =
      tensors_apart(network_, layout_, *plan_, {processor_.get()}, whole.nodes(0));
  std::vector<double> own;
  for (const TensorApart& one : mine) {
    own.push_back(double{one.apart.apart});
    own.push_back(double{one.apart.largest});
  }
  std::vector<std::vector<TensorApart>> all;
  for (const std::vector<double>& one : all_numbers(processes_, own)) {
    std::vector<TensorApart>& its = all.emplace_back(mine);
    for (std::size_t t = 0; t < its.size(); ++t)
      its[t].apart = {static_cast<float>(one[2 * t]), static_cast<float>(one[2 * t + 1])};
  }
  return together(all);
}

}  // namespace weir::cpu
