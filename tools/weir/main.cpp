// `weir`: parses the command line, runs one sub-command, and turns what was thrown into one line
// and an exit code: 0 ok, 2 usage, 3 bad input, 4 no feasible plan, 5 missing hardware or
// component, 6 run failed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "plan/text/ending.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/exit_code.hpp"

int main(int argc, char** argv) {
  CLI::App app{
      "Forecasts pipeline-parallel training, runs the plan it picked, and learns from the "
      "difference."};
  app.set_version_flag("--version", WEIR_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  weir::GlobalOptions global;
  app.add_flag("--json", global.json, "Print JSON on stdout");
  app.add_flag("-q,--quiet", global.quiet, "No progress on stderr");
  app.add_option("--seed", global.seed, "Seed of everything random")->capture_default_str();
  weir::add_doctor_command(app, global);
  weir::add_model_command(app, global);
  weir::add_plan_command(app, global);
  weir::add_schedule_command(app, global);
  weir::add_profile_command(app, global);
  weir::add_calibrate_command(app, global);
  weir::add_simulate_command(app, global);
  weir::add_sweep_command(app, global);
  weir::add_run_command(app, global);
  weir::add_compare_command(app, global);
  weir::add_tune_command(app, global);
  weir::add_evaluate_command(app, global);
  weir::add_export_command(app, global);
  weir::add_reproduce_command(app, global);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (
      const CLI::RuntimeError& ended) {  // the run was one of several processes, and has said why
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  } catch (...) {
    const weir::Ending ending = weir::ending_of(std::current_exception());
    fmt::print(stderr, "weir: {}\n", ending.line);
    return weir::exit_code(ending.kind);
  }
}
