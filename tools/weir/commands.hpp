// The sub-commands of `weir`, one file each. A command registers its options and a callback; it
// prints data on stdout, progress and logs on stderr, and reports failure by throwing
// (plan/words/error.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace CLI {
class App;
}

namespace weir {

struct GlobalOptions {
  bool json = false;
  bool quiet = false;
  std::uint64_t seed = 1;
};

void add_doctor_command(CLI::App& app, GlobalOptions& global);
void add_model_command(CLI::App& app, GlobalOptions& global);
void add_plan_command(CLI::App& app, GlobalOptions& global);
void add_schedule_command(CLI::App& app, GlobalOptions& global);
void add_profile_command(CLI::App& app, GlobalOptions& global);
void add_calibrate_command(CLI::App& app, GlobalOptions& global);
void add_simulate_command(CLI::App& app, GlobalOptions& global);
void add_sweep_command(CLI::App& app, GlobalOptions& global);
void add_run_command(CLI::App& app, GlobalOptions& global);
void add_compare_command(CLI::App& app, GlobalOptions& global);
void add_tune_command(CLI::App& app, GlobalOptions& global);
void add_evaluate_command(CLI::App& app, GlobalOptions& global);
void add_export_command(CLI::App& app, GlobalOptions& global);
void add_reproduce_command(CLI::App& app, GlobalOptions& global);

}  // namespace weir
