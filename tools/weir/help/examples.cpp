// Examples by sub-command, the exit codes in words, topics of help and groups of options.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/help/examples.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "plan/schedule/generators/generators.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/exit_code.hpp"

namespace weir {
namespace {

struct Example {
  std::string_view command, line, says;
};

constexpr std::array kExamples{
    Example{"doctor", "weir doctor", "what this machine can run"},
    Example{"model", "weir model config.json --seq-length 2048", "layers, parameters and FLOPs"},
    Example{"layout", "weir layout config.json --mesh d=4,m=8 --rules batch:d,heads:m,ffn:m",
            "what each device holds and sends"},
    Example{"layout", "weir layout program.json --devices 64 --cluster dgx-h100",
            "the best layouts, with proof"},
    Example{"plan", "weir plan config.json -K 4 -M 16 -o plan.json", "stages where they balance"},
    Example{"plan", "weir plan pretrain.sh --from megatron --gpus 64 -o plan.json",
            "a job as it runs today"},
    Example{"schedule", "weir schedule zb-h1 -K 4 -M 8", "drawn, timed, proved"},
    Example{"schedule", "weir schedule mine.csv --svg mine.svg", "one of your own"},
    Example{"serve", "weir serve runs", "the whole tool in a browser, for the files in runs"},
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
    Example{"reports", "weir reports runs -o runs/index.html", "all reports below it, on one page"},
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

constexpr std::array kTopics{"files", "exit-codes", "schedules", "clusters"};

std::string files() {
  return "Files that commands read and write; each says its format in \"schema\":\n"
         "  model      Hugging Face config.json, a layer list (weir.layers/1), layers.csv with "
         "times\n"
         "  plan       weir.plan/1: written by weir plan and weir sweep --plans, read by most\n"
         "  schedule   CSV in PyTorch's dialect: a row a rank, actions as 2F0, 1I2, 1W2, 3B1\n"
         "  costs      weir.costs/1: written by weir profile and weir calibrate, read by --costs\n"
         "  trace      weir.trace/1 (Perfetto opens it): written by weir simulate -o and weir run "
         "-o\n"
         "  cluster    weir.cluster/1, or a name: weir help clusters\n"
         "  stack      weir.stack/1, or a name: the software that runs a plan\n"
         "Every key of every format: docs/formats.md.\n";
}

std::string schedules() {
  std::string text =
      "Schedules by name, for --schedule and weir schedule; their idle time a step, "
      "beyond M (F + B):\n";
  for (const Generator& g : generators())
    text += fmt::format("  {:<18}v {:<4}{}\n", g.name,
                        g.one_chunks ? std::to_string(g.default_chunks) : "any", g.bubble);
  return text +
         "Or a CSV file, or exec:COMMAND, run as COMMAND K M v. Sources and memory: weir schedule "
         "--list; side by side: weir schedule NAME NAME.\n";
}

std::string clusters() {
  return fmt::format(
      "Clusters by name, for --cluster; NAME:32 has 32 nodes, NAME:4+OTHER:8 two kinds:\n{}\n"
      "Or a file (weir.cluster/1), as those in tools/examples/clusters.\n",
      fmt::join(app::cluster_names(), ", "));
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> examples_for(std::string_view command) {
  std::vector<std::pair<std::string_view, std::string_view>> lines;
  for (const Example& example : kExamples) {
    if (example.command == command) lines.emplace_back(example.line, example.says);
  }
  return lines;
}

std::string examples_of(std::string_view command) {
  std::string text = "Examples:\n";
  for (const auto& [line, says] : examples_for(command))
    text += fmt::format("  {:<66} {}\n", line, says);
  return text;
}

std::string exit_codes_text() {
  std::string text = "Exit codes:";
  for (const auto& [kind, meaning] : kMeanings) {
    text += fmt::format("{} {} {}", kind == EndKind::done ? "" : ",", exit_code(kind), meaning);
  }
  text += fmt::format(", {} stopped by Ctrl-C, {} by SIGTERM, {} by SIGHUP",
                      exit_code_of_signal(SIGINT), exit_code_of_signal(SIGTERM),
                      exit_code_of_signal(SIGHUP));
  return text +
         fmt::format(
             "\nMore of a command, with examples: weir help COMMAND; of {}: weir help TOPIC\n",
             fmt::join(kTopics, ", "));
}

std::optional<std::string> help_on(std::string_view topic) {
  if (topic == "files") return files();
  if (topic == "exit-codes") return exit_codes_text();
  if (topic == "schedules") return schedules();
  if (topic == "clusters") return clusters();
  return std::nullopt;
}

std::vector<std::string> with_topics(std::vector<std::string> commands) {
  commands.insert(commands.end(), kTopics.begin(), kTopics.end());
  return commands;
}

std::string option_group(std::string_view long_name) {
  using Names = std::vector<std::string_view>;
  static const std::array<std::pair<const char*, Names>, 8> kGroups{{
      {"Machine and software",
       {"cluster", "stack", "costs", "gpus", "memory-limit", "backend", "transport", "any-schedule",
        "straggler", "topo", "nccl"}},
      {"Model and numbers",
       {"seq-length", "lengths", "rows", "dtype", "fp8-recipe", "fp8-param-gather", "attention",
        "lora-rank", "lora-targets", "lora-dropout", "frozen", "mtp-num-layers",
        "mtp-loss-scaling-factor"}},
      {"Optimizer",
       {"optimizer", "learning-rate", "momentum", "nesterov", "newton-schulz", "weight-decay",
        "clip-grad", "lr-warmup-iters", "lr-decay-style", "lr-decay-iters", "min-lr"}},
      {"Parallel degrees",
       {"pp", "vpp", "microbatches", "micro-batch-size", "global-batch-size", "tp", "cp", "dp",
        "ep", "etp", "zero", "zero-shards", "zero-secondary", "sequence-parallel", "slices",
        "expert-load", "expert-dispatch", "rank-order", "placement"}},
      {"Schedule and stages",
       {"schedule", "slots", "transfers", "allow-reordered", "recompute", "recompute-microbatches",
        "boundaries", "partition", "skips", "layout", "layouts", "layout-name", "offload-optimizer",
        "offload-activations"}},
      {"Overlap and launches",
       {"overlap-moe-expert-parallel-comm", "tp-comm-overlap", "overlap-grad-reduce",
        "cuda-graphs"}},
      {"Failures", {"mtbf", "checkpoint-cost", "restart-cost", "downtime"}},
      {"Files and pictures",
       {"output", "svg", "width", "palette", "memory", "no-title", "csv", "csv-format", "perfetto",
        "plans", "pareto"}},
  }};
  const auto group = std::ranges::find_if(kGroups, [&](const auto& one) {
    return std::ranges::find(one.second, long_name) != one.second.end();
  });
  return group == kGroups.end() ? "Options" : group->first;
}

}  // namespace weir
