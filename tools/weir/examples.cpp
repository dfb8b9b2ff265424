// Examples by sub-command, and the exit codes in words.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/examples.hpp"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <utility>

#include "tools/app/shared/exit_code.hpp"

namespace weir {
namespace {

struct Example {
  std::string_view command, line, says;
};

constexpr std::array kExamples{
    Example{"doctor", "weir doctor", "what this machine can run"},
    Example{"model", "weir model config.json --seq-length 2048", "layers, parameters and FLOPs"},
    Example{"plan", "weir plan config.json -K 4 -M 16 -o plan.json", "stages where they balance"},
    Example{"plan", "weir plan pretrain.sh --from megatron --gpus 64 -o plan.json",
            "a job as it runs today"},
    Example{"schedule", "weir schedule zb-h1 -K 4 -M 8", "drawn, timed, proved"},
    Example{"schedule", "weir schedule mine.csv --svg mine.svg", "one of your own"},
    Example{"profile", "weir profile config.json -o profile.json", "what layers take here"},
    Example{"calibrate", "weir calibrate out/measured.json --costs profile.json -o costs.json",
            "costs that a run has corrected"},
    Example{"calibrate", "weir calibrate --cluster dgx-h100 --measured plan.json=22.3s -o a.json",
            "built-in costs, anchored to one step"},
    Example{"simulate", "weir simulate plan.json --cluster dgx-h100", "step time, memory, bubble"},
    Example{"simulate", "weir simulate plan.json --timeline", "and the step, drawn here"},
    Example{"fits", "weir fits pretrain.sh --from megatron --gpus 64 --cluster dgx-h100",
            "whether it runs out of memory"},
    Example{"explain", "weir explain plan.json --cluster dgx-h100", "what the step waits for"},
    Example{"explain", "weir explain plan.json --cluster dgx-h100 --measured 22.3s",
            "and what could make up the difference"},
    Example{"sweep", "weir sweep config.json --global-batch-size 64 -K 1..8 --top 5",
            "the best plans"},
    Example{"sweep", "weir sweep config.json -K 1..8 --format csv", "for a spreadsheet"},
    Example{"run", "weir run plan.json --steps 5 -o out", "train it here, and write the trace"},
    Example{"compare", "weir compare out/predicted.json out/measured.json", "where they differ"},
    Example{"tune", "weir tune config.json -o weir-out", "profile, search, run, report"},
    Example{"evaluate", "weir evaluate config.json -o judged", "how far to trust it here"},
    Example{"export", "weir export plan.json --to megatron -o job", "files to train with"},
    Example{"reproduce", "weir reproduce --list", "published tables that are forecast"},
};

constexpr std::array<std::pair<EndKind, std::string_view>, 6> kMeanings{
    {{EndKind::done, "done"},
     {EndKind::usage, "options that cannot be"},
     {EndKind::bad_input, "bad input"},
     {EndKind::no_plan, "no feasible plan"},
     {EndKind::missing, "hardware or a component is missing"},
     {EndKind::failed, "the run failed"}}};

}  // namespace

std::string examples_of(std::string_view command) {
  std::string text = "Examples:\n";
  for (const Example& example : kExamples) {
    if (example.command == command)
      text += fmt::format("  {:<66} {}\n", example.line, example.says);
  }
  return text;
}

std::string exit_codes_text() {
  std::string text = "Exit codes:";
  for (const auto& [kind, meaning] : kMeanings) {
    text += fmt::format("{} {} {}", kind == EndKind::done ? "" : ",", exit_code(kind), meaning);
  }
  text += fmt::format(", {} stopped by Ctrl-C, {} by SIGTERM", exit_code_of_signal(SIGINT),
                      exit_code_of_signal(SIGTERM));
  return text + "\nMore of a command, with examples: weir help COMMAND\n";
}

}  // namespace weir
