// What readings of the rows behind missed aims have found.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/reasons.hpp"

#include <algorithm>
#include <array>

namespace weir {
namespace {

// By how the aim's rows and its method begin.
struct Reason {
  std::string_view what, method, why;
};
constexpr std::array<Reason, 14> kReasons{{
    {"playbook, runs that failed", "as it comes",
     "each of them either leaves stages empty, with which this software fails whatever it holds, "
     "or ran below 60 GB with the same micro-batch in another layout: crashes, not memory"},
    {"BLOOM's grids", "anchored",
     "heads of 150 numbers are slower than forecast, the more so the larger the micro-batch is (8 "
     "samples: 21 to 25 %), and an anchor carries its own deviation to its grid; without one the "
     "rows are nearer"},
    {"MLPerf", "anchored",
     "rounds and submitters of one machine differ more than their numbers of micro-batches: "
     "10,240 and 8,192 devices of one round by 6 % about the forecast"},
    {"Primus, six schedules: time", "anchored",
     "v-min took 13 % longer than 1F1B where the forecast has 6 %; what its two chunks cost each "
     "other on a device is not modelled"},
    {"Primus, six schedules: memory", "anchored",
     "forecasts of placements in a V are 3 to 4 GB too large, the state and the logits of a head: "
     "as if the rank that holds it had not been counted; the table does not say which was"},
    {"torchtitan and llm-foundry", "anchored",
     "llm-foundry's short sequences on H100 are forecast 15 to 20 % too fast, its longest 13 % too "
     "slow; torchtitan's three kinds of FP8, its rings of context and its overlapped tensor "
     "parallelism are one group, and any run is an anchor for all"},
    {"GH200 with stated stages", "anchored",
     "forecasts are 12 to 18 % too short where four and eight stages pass on four samples or more, "
     "3 to 14 % with two, 41 % with a single micro-batch, up to 12 % too long with one sample; "
     "with one stage two of six runs are 18 and 19 % too short: no source says why"},
    {"GH200 with stated stages", "left out",
     "as anchored; most of these rows are forecast too short, and the level of other machines "
     "makes "
     "up for a few percent of that, a tenth more or less as theirs change"},
    {"vTrain", "as it comes",
     "with two or four devices a tensor group a step is 10 % longer than forecast at any number of "
     "micro-batches, with one or eight it is right within 3 %; no second source shows it"},
    {"Zero Bubble", "as it comes",
     "orders with a split backward are forecast 4 to 7 % too fast, others 1 to 5 %: the published "
     "times of I and W leave out something that passes apart cost"},
    {"Korthikanti", "as it comes",
     "steps that make all again are forecast 3 to 4 % too long, selective ones up to 4 % too "
     "short: "
     "a forward that is made again costs less than the first"},
    {"intervals", "left out", "other groups' errors are of another size than these groups' own"},
    {"intervals", "anchored",
     "half of a group's anchors are runs that deviate themselves, and the interval holds for any"},
    {"all clusters and stacks", "anchored",
     "where the built-in forecast is as near as single runs repeat, an anchor adds its own noise"},
}};

}  // namespace

std::string_view known_reason(const AimLine& line) {
  if (line.reached() != std::optional(false)) return {};
  const auto found = std::ranges::find_if(kReasons, [&](const Reason& reason) {
    return line.what.starts_with(reason.what) && line.method.starts_with(reason.method);
  });
  return found == kReasons.end() ? std::string_view() : found->why;
}

}  // namespace weir
