// `weir export`: carries a plan to where people train: files, the launch line, and what could not
// be carried.
// SPDX-License-Identifier: Apache-2.0
#include "plan/export/export.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "tools/weir/commands.hpp"

namespace weir {
namespace {

struct ExportCommand {
  std::filesystem::path plan, output = "weir-export";
  std::string to;
  ExportOptions options;
};

ExportedJob exported(const ExportCommand& c, const ResolvedPlan& loaded) {
  if (c.to == "torchtitan") return export_torchtitan(loaded, c.options);
  if (c.to == "torch") return export_torch(loaded, c.options);
  if (c.to == "megatron") return export_megatron(loaded, c.options);
  return export_deepspeed(loaded, c.options);
}

void print_json(const ExportCommand& c, const ExportedJob& job) {
  Json json{
      {"schema", "weir.export/1"}, {"to", c.to}, {"files", Json::array()}, {"launch", job.launch}};
  for (const ExportedFile& file : job.files)
    json["files"].push_back((c.output / file.name).string());
  json["not_carried"] = Json::array();
  for (const Remark& remark : job.not_carried) {
    json["not_carried"].push_back({{"name", remark.name}, {"text", remark.text}});
  }
  fmt::print("{}\n", json.dump(1));
}

void run(const ExportCommand& c, const GlobalOptions& global) {
  const ExportedJob job = exported(c, load_plan(c.plan));
  for (const ExportedFile& file : job.files) write_file_atomically(c.output / file.name, file.text);
  if (global.json) return print_json(c, job);
  for (const ExportedFile& file : job.files) fmt::print("{}\n", (c.output / file.name).string());
  fmt::print("\nlaunch, in {}:\n  {}\n", c.output.string(), job.launch);
  if (!job.not_carried.empty()) fmt::print("\nnot carried:\n");
  for (const Remark& remark : job.not_carried) fmt::print("  {}: {}\n", remark.name, remark.text);
}

}  // namespace

void add_export_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("export", "Carry a plan to where people train");
  auto c = std::make_shared<ExportCommand>();
  command->add_option("plan", c->plan, "Plan file")->required();
  command->add_option("--to", c->to, "torchtitan, torch, megatron or deepspeed")
      ->required()
      ->check(CLI::IsMember({"torchtitan", "torch", "megatron", "deepspeed"}));
  command->add_option("-o,--output", c->output, "Folder of the files")->capture_default_str();
  command
      ->add_option("--gpus-per-node", c->options.gpus_per_node,
                   "At most so many devices a node in the launch line")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->callback([c, &global] { run(*c, global); });
}

}  // namespace weir
