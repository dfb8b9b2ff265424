// Clusters and stacks by file or by name.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "costmodel/table/device_kind.hpp"
#include "plan/job/assumed_stack.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/reproduce/known_software.hpp"
#include "tools/reproduce/published.hpp"

namespace weir::app {
namespace {

using Path = std::filesystem::path;

// A kind of file among those that are compiled in.
struct FileKind {
  const char* noun;
  std::string_view schema;
};
constexpr FileKind kClusters{"cluster", "weir.cluster/1"}, kStacks{"stack", "weir.stack/1"};
constexpr std::string_view kEnding = ".json";

bool is_of(const std::string& file, const std::string& text, const FileKind& kind) {
  return file.ends_with(kEnding) && text_has_schema(text, kind.schema);
}

std::vector<std::string> names_of(const FileKind& kind) {
  std::vector<std::string> names;
  for (const auto& [file, text] : compiled_tables()) {
    if (is_of(file, text, kind)) names.push_back(file.substr(0, file.size() - kEnding.size()));
  }
  return names;
}

// The compiled text of a bare name; null where a file has that name, or where it is a path.
const std::string* compiled(const Path& choice, const FileKind& kind) {
  if (std::filesystem::exists(choice)) return nullptr;
  const auto& all = compiled_tables();
  const auto found = all.find(choice.string() + std::string(kEnding));
  if (found != all.end() && is_of(found->first, found->second, kind)) return &found->second;
  // A file that is not there complains of that.
  if (choice.has_parent_path() || choice.has_extension()) return nullptr;
  const std::vector<std::string> known = names_of(kind);
  throw InputError(choice.string(), "",
                   fmt::format("is no file and no {} of {}{}", kind.noun, fmt::join(known, ", "),
                               did_you_mean(choice.string(), known)));
}

// The stack of anchored costs, by name.
std::optional<std::string> stack_of(const CostsSource& source) {
  const auto* costs = std::get_if<Costs>(&source);
  if (costs != nullptr) return costs->anchor ? std::optional(costs->anchor->stack) : std::nullopt;
  const auto* file = std::get_if<Path>(&source);
  if (file == nullptr) return std::nullopt;
  const Costs loaded = load_costs(*file);
  return loaded.anchor ? std::optional(loaded.anchor->stack) : std::nullopt;
}

Stack stack_for(const MachineChoice& choice, const Device& device) {
  if (choice.stack) return load_stack_or_name(*choice.stack);
  // What anchored costs were learnt with comes before any guess.
  if (const auto anchored = stack_of(choice.costs)) return load_stack_or_name(*anchored);
  // A CPU runs Weir's own executor.
  if (!is_gpu(device)) return {};
  if (!choice.job_stack.empty()) return load_stack_or_name(choice.job_stack);
  Stack assumed = load_stack_or_name(std::string(kDefaultStack));
  set_assumed(assumed);
  return assumed;
}

}  // namespace

Field stack_field(StackChoice& stack) {
  return {"--stack", &stack,
          "Software that runs it, a file or a name as nanotron "
          "(default: typical on GPUs, weir on CPUs)"};
}

Field any_schedule_field(bool& any_schedule) {
  return {"--any-schedule", &any_schedule,
          "Propose also what the stack has not: schedules, ZeRO stages in pipelines, "
          "re-materialisation (default: what its file lists)"};
}

bool may_be(const std::string& reported, const Device& device) {
  // Nothing was reported, so nothing contradicts.
  if (reported.empty()) return true;
  constexpr auto kBetween = "- _/";
  const std::string model = device.name.substr(0, device.name.find_first_of(kBetween));
  for (std::size_t from = 0; from < reported.size();) {
    const std::size_t to = std::min(reported.find_first_of(kBetween, from), reported.size());
    if (reported.compare(from, to - from, model) == 0) return true;
    from = to + 1;
  }
  return false;
}

namespace {

Cluster of_one_file(const Path& cluster) {
  const std::string* text = compiled(cluster, kClusters);
  return text != nullptr ? parse_cluster(*text, cluster.string()) : load_cluster(cluster);
}

// "CLUSTER:NODES", or a cluster with as many nodes as it says.
Cluster pool_of(const std::string& text) {
  const auto colon = text.rfind(':');
  Cluster pool = of_one_file(text.substr(0, colon));
  // One node's links say nothing of what leads out of it.
  if (pool.nodes == 1 && pool.inter.bandwidth == pool.intra.bandwidth &&
      pool.inter.latency == pool.intra.latency) {
    throw InputError(pool.name, "inter",
                     "is that within a node; expected what leads to other nodes");
  }
  if (colon == std::string::npos) return pool;
  const char *first = text.data() + colon + 1, *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, pool.nodes);
  if (error != std::errc() || end != last || pool.nodes < 1 || pool.nodes > Cluster::kMostNodes) {
    throw UsageError(
        fmt::format("--cluster {}: expected CLUSTER:NODES, as dgx-h100:4 or dgx-h100:4+dgx-a100:4, "
                    "each of 1 to {} nodes",
                    text, Cluster::kMostNodes));
  }
  // The number's origin is now the command line, not the file.
  if (!pool.origins.empty()) replace_origin(pool.origins, "nodes", "--cluster says how many");
  return pool;
}

}  // namespace

Cluster load_cluster_or_name(const Path& cluster) {
  const std::string text = cluster.string();
  if (std::filesystem::exists(cluster)) return of_one_file(cluster);
  // "+" joins pools of different nodes; a file may have that in its name, so it is looked for
  // first.
  if (text.find('+') == std::string::npos)
    return text.find(':') == std::string::npos ? of_one_file(cluster) : pool_of(text);
  std::vector<Cluster> pools;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find('+', from), text.size());
    pools.push_back(pool_of(text.substr(from, to - from)));
    from = to + 1;
  }
  return pooled(text, std::move(pools));
}

std::vector<std::string> cluster_names() { return names_of(kClusters); }

Device load_gpu(const std::string& name) {
  const auto lower = [](std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  for (const std::string& cluster : cluster_names()) {
    Device device = load_cluster_or_name(cluster).device;
    if (lower(device.name.substr(0, device.name.find('-'))) == lower(name)) return device;
  }
  return load_cluster_or_name(name).device;
}

Stack load_stack_or_name(const Path& stack) {
  const std::string* text = compiled(stack, kStacks);
  return text != nullptr ? parse_stack(*text, stack.string()) : load_stack(stack);
}

Cluster machine(const MachineChoice& choice) {
  Cluster cluster = choice.cluster ? load_cluster_or_name(*choice.cluster) : host_cluster();
  set_stack(cluster, stack_for(choice, cluster.device));
  return cluster;
}

std::optional<std::string> take_devices(Cluster& cluster, int devices) {
  // A cluster's file says one size of it; jobs take more nodes of the same kind.
  if (devices <= cluster.devices()) return std::nullopt;
  if (cluster.kinds() > 1) {
    throw NoFeasiblePlan(
        fmt::format("{} devices: {} has {}", devices, cluster.name, cluster.devices()));
  }
  const int before = cluster.nodes;
  cluster.nodes = (devices + cluster.devices_per_node - 1) / cluster.devices_per_node;
  return fmt::format("{}: {} nodes of {} devices are taken, its file has {}", cluster.name,
                     cluster.nodes, cluster.devices_per_node, before);
}

Field gpus_field(std::optional<int>& gpus) {
  return {"--gpus",
          &gpus,
          "Devices of the job, on as many of the cluster's nodes as they need (default: the "
          "cluster's)",
          {.range = kPositive}};
}

Cluster machine(const MachineChoice& choice, std::optional<int> gpus, const Session& session) {
  Cluster cluster = machine(choice);
  if (!gpus) return cluster;
  if (const auto remark = take_devices(cluster, *gpus)) session.note(*remark);
  return cluster;
}

std::optional<std::string> complete_precision(PlanOptions& options, const Cluster& cluster,
                                              const Session& session) {
  if (!cluster.device.kernels) return std::nullopt;
  std::vector<std::string> taken, names;
  const auto take = [&](const char* name, std::string& option, const char* value) {
    // What was given stays, and is not told.
    if (session.given(name)) return;
    option = value;
    taken.push_back(fmt::format("{} {}", name, value));
    names.push_back(fmt::format("--{}", name));
  };
  take("dtype", options.dtype, "bf16");
  take("attention", options.attention, "fused");
  if (taken.empty()) return std::nullopt;
  return fmt::format("{}, none being named with {}", fmt::join(taken, " and "),
                     fmt::join(names, " or "));
}

StackAbilities abilities(const MachineChoice& choice, const Cluster& machine) {
  if (choice.any_schedule || (!choice.stack && machine.stack.name == Stack{}.name)) return {};
  const Path stack = choice.stack ? *choice.stack : Path(machine.stack.name);
  const std::string* text = compiled(stack, kStacks);
  return parse_abilities(text != nullptr ? *text : read_text_file(stack), stack.string());
}

bool is_assumed(const std::string& stack) { return stack == kDefaultStack; }

std::optional<std::string> remark_on(const StackChoice& choice, const std::string& taken) {
  if (choice || taken.empty() || taken == Stack{}.name) return std::nullopt;
  if (!is_assumed(taken))
    return fmt::format("stack: {}, as the job or its costs name it; --stack names another", taken);
  return fmt::format(
      "no --stack given: {}, half-way between the leanest software that is known and the plainest; "
      "name yours, as megatron-core",
      taken);
}

}  // namespace weir::app
