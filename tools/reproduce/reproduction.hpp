// Published numbers beside Weir's: one line a number. The rules: a formula must give the printed
// digits; a constant serves every row of its case, and is fitted on the rows marked `calibrated`
// only; what a paper contradicts itself in is an anomaly, listed with the reason and left out of
// every statistic.
//
// Start at `reproduction_cases()`; each case is a file of its paper.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/reproduce/published.hpp"

namespace weir {

enum class Role : std::uint8_t {
  formula,     // a closed form or an exact simulation: the printed digits themselves
  calibrated,  // the row was used to fit the case's constants
  predicted,   // it was not
};
[[nodiscard]] std::string_view to_string(Role role);

struct ReproducedNumber {
  std::string row;       // "6.2B m=24"
  std::string quantity;  // "bubble rate, 1f1b"
  Printed published;
  double predicted = 0;
  std::string device = {};  // whose built-in costs forecast it; empty: the case's own constants did
};

struct ReproductionLine {
  std::string row, quantity;
  double published = 0;
  double predicted = 0;  // formulas: as it would have been printed
  Role role = Role::predicted;
  std::string device = {};             // as in ReproducedNumber
  [[nodiscard]] double error() const;  // predicted / published - 1
};

struct Anomaly {
  std::string row, quantity;
  double published = 0, predicted = 0;
  std::string reason;
};

struct CaseResult {
  std::string name;
  std::vector<ReproductionLine> lines;
  std::vector<Anomaly> anomalies;
  std::vector<std::string> notes;  // assumptions and fitted constants, a sentence each

  void add(Role role, const ReproducedNumber& number);
  void add_anomaly(const ReproducedNumber& number, std::string reason);
};

struct ErrorSummary {
  Role role = Role::predicted;
  int numbers = 0;
  double median = 0, mean = 0, worst = 0;  // of |error|
};
// One entry for each role that the case has, in the order of Role.
[[nodiscard]] std::vector<ErrorSummary> summaries(const CaseResult& result);

struct ReproductionCase {
  std::string_view name;
  std::string_view about;  // paper and tables
  CaseResult (*run)(const Publications&);
  bool measured = false;  // its rows are runs of tools/reproduce/measured
};
[[nodiscard]] std::span<const ReproductionCase> reproduction_cases();

// Each in the file of its paper.
[[nodiscard]] CaseResult reproduce_gpipe_memory(const Publications& published);
[[nodiscard]] CaseResult reproduce_gpipe_throughput(const Publications& published);
[[nodiscard]] CaseResult reproduce_gpipe_amoebanet(const Publications& published);
[[nodiscard]] CaseResult reproduce_torchgpipe(const Publications& published);
[[nodiscard]] CaseResult reproduce_zero_bubble_rates(const Publications& published);
[[nodiscard]] CaseResult reproduce_zero_bubble_throughput(const Publications& published);
[[nodiscard]] CaseResult reproduce_zero_bubble_memory(const Publications& published);
[[nodiscard]] CaseResult reproduce_formulas(const Publications& published);
[[nodiscard]] CaseResult reproduce_megatron(const Publications& published);
[[nodiscard]] CaseResult reproduce_korthikanti_memory(const Publications& published);
[[nodiscard]] CaseResult reproduce_korthikanti_steps(const Publications& published);
[[nodiscard]] CaseResult reproduce_vtrain(const Publications& published);
[[nodiscard]] CaseResult reproduce_builtin(const Publications& published);
// In tools/reproduce/rates.
[[nodiscard]] CaseResult reproduce_kernel_rates(const Publications& published);
[[nodiscard]] CaseResult reproduce_link_rates(const Publications& published);
// In tools/reproduce/measured/cases.cpp.
[[nodiscard]] CaseResult reproduce_playbook(const Publications& published);
[[nodiscard]] CaseResult reproduce_bloom(const Publications& published);
[[nodiscard]] CaseResult reproduce_mlperf(const Publications& published);
[[nodiscard]] CaseResult reproduce_primus(const Publications& published);
// In tools/reproduce/measured/primus_timeline.cpp.
[[nodiscard]] CaseResult reproduce_primus_timeline(const Publications& published);
// In tools/reproduce/measured/cases.cpp.
[[nodiscard]] CaseResult reproduce_torchtitan(const Publications& published);
[[nodiscard]] CaseResult reproduce_llm_foundry(const Publications& published);
[[nodiscard]] CaseResult reproduce_sailor(const Publications& published);
[[nodiscard]] CaseResult reproduce_megatron_bridge(const Publications& published);
[[nodiscard]] CaseResult reproduce_megatron_bridge_experts(const Publications& published);
[[nodiscard]] CaseResult reproduce_nemo(const Publications& published);
[[nodiscard]] CaseResult reproduce_dgx_cloud(const Publications& published);

}  // namespace weir
