// The request of a search made of a sweep's options.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/search_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/training_fields.hpp"

namespace weir::app {
namespace {

// On a terminal: how far, how fast, and the best so far.
void show(const SearchProgress& progress, const Session& session) {
  const double rate = static_cast<double>(progress.done) / std::max(progress.seconds, 1e-9);
  const std::string best =
      progress.best ? ", best " + format_duration(*progress.best) : std::string();
  session.progress(fmt::format("sweep {:.0f}/s{}", rate, best), static_cast<int>(progress.done),
                   static_cast<int>(progress.of));
}

void set_limits(weir::SweepRequest& search, const SweepRequest& r, const Cluster& cluster) {
  if (!r.global_batch_size && r.microbatches.empty())
    throw UsageError("sweep needs --microbatches, --global-batch-size, or both");
  search.memory_limit = r.memory_limit.empty() ? cluster.largest_memory()
                                               : parse_memory(r.memory_limit, "--memory-limit");
  // Without a cluster or a number of devices each candidate takes what it needs.
  if (!r.cluster && !r.gpus && !r.at_most) return;
  // All of them where the search has a degree to choose; where each was said, no more than them.
  const bool open =
      search.pp.empty() || search.tp.empty() || search.cp.empty() || search.dp.empty();
  search.devices = r.gpus ? *r.gpus : r.at_most.value_or(cluster.devices());
  search.exact_devices = r.gpus || (!r.at_most && open);
  if (search.pp.empty()) return;
  // What needs more devices than there are is left out before anything is priced.
  std::erase_if(search.pp, [&](int k) { return k > *search.devices; });
  if (search.pp.empty()) {
    throw NoFeasiblePlan(fmt::format(
        "{} has {} devices", r.cluster ? r.cluster->string() : "the search", *search.devices));
  }
}

}  // namespace

void complete(SweepRequest& r, const Plan& baseline, const Session& session) {
  if (!session.given("seq-length")) r.common.seq_length = baseline.seq_length;
  if (!session.given("dynamic-cp") && !r.common.lengths.empty())
    r.dynamic_cp = baseline.lengths.dynamic_cp;
  take_treatment(baseline, session, r.common);
  take_training(baseline, session, r.common, r.seed);
  if (!r.global_batch_size) r.global_batch_size = mini_batch_of(baseline, name_of(r.baseline));
  // What an option says holds; the rest is the baseline's, so that both train alike.
  const auto own = [&session](const char* option, auto& value, const auto& its) {
    if (!session.given(option)) value = its;
  };
  own("overlap-grad-reduce", r.parallel.overlap_grad_reduce, baseline.overlap_grad_reduce);
  own("sequence-parallel", r.parallel.sequence_parallel, baseline.sequence_parallel);
  own("tp-comm-overlap", r.parallel.overlap_tensor_parallel, baseline.overlap_tensor_parallel);
  // What the baseline leaves on its devices nobody has named.
  const auto share = [](double of) { return of > 0 ? std::vector{of} : std::vector<double>{}; };
  own("offload-activations", r.parallel.offload_activations, share(baseline.offload_activations));
  own("offload-optimizer", r.parallel.offload_optimizer, share(baseline.offload_optimizer));
  for (const auto& [option, its] : {std::pair("offload-optimizer", baseline.offload_optimizer),
                                    {"offload-activations", baseline.offload_activations}}) {
    if (its == 0 || session.given(option)) continue;
    session.note(
        fmt::format("--{} {} is the baseline's, and kept: --{} 0,{} searches without it too",
                    option, its, option, its));
  }
  if (baseline.ep > 1) {
    own("expert-dispatch", r.parallel.expert_dispatch,
        std::string(to_string(baseline.expert_dispatch)));
  }
  own("expert-load", r.parallel.expert_load, baseline.expert_load);
  own("cuda-graphs", r.parallel.cuda_graphs.words, std::vector{to_string(baseline.cuda_graphs)});
  own("rank-order", r.parallel.rank_order.words,
      std::vector{std::string(to_string(baseline.rank_order))});
}

void complete(SweepRequest& r, SweepReply& reply, const Session& session) {
  if (auto remark = complete_precision(r.common, reply.cluster, session))
    reply.remarks.push_back(std::move(*remark));
}

bool leaves_degrees_open(const SweepRequest& r) {
  const bool open =
      r.pp.empty() || r.parallel.tp.empty() || r.parallel.cp.empty() || r.parallel.dp.empty();
  return r.gpus || r.at_most || (r.cluster && open);
}

void say_the_rest(SweepRequest& r) {
  const auto otherwise = [](auto& list, const auto& choice) {
    if (list.empty()) list = choice;
  };
  // All degrees were named: what is left takes its usual value instead of being searched.
  otherwise(r.pp, std::vector{1, 2, 3, 4, 5, 6, 7, 8});
  for (auto* degree : {&r.vpp, &r.parallel.tp, &r.parallel.cp, &r.parallel.dp})
    otherwise(*degree, std::vector{1});
  otherwise(r.parallel.zero, std::vector{0});
  otherwise(r.parallel.zero_shards, std::vector{0});
  otherwise(r.parallel.ep, std::vector{1});
  otherwise(r.parallel.etp, std::vector{0});
  for (const std::string& name : r.schedule.words) {
    const Generator* generator = find_generator(name);
    // A schedule that slices is meant to be tried with slices.
    if (generator != nullptr && generator->default_slices > 1 && r.slices.empty())
      r.slices = {1, generator->default_slices};
  }
  otherwise(r.slices, std::vector{1});
  otherwise(r.schedule.words, std::vector<std::string>{"gpipe", "1f1b"});
  otherwise(r.recompute.words, std::vector<std::string>{"none"});
}

void take_devices(const SweepRequest& r, SweepReply& reply) {
  if (r.gpus && r.at_most) throw UsageError("--gpus and --at-most: expected one of them");
  const std::optional<int> devices = r.gpus ? r.gpus : r.at_most;
  if (!devices) return;
  if (auto remark = take_devices(reply.cluster, *devices))
    reply.remarks.push_back(std::move(*remark));
}

std::vector<std::string> named_beyond(const weir::SweepRequest& asked, const std::string& stack) {
  std::vector<std::string> lines;
  const auto look = [&](const Plan& plan) {
    const auto lacking = beyond(asked.software, plan);
    if (lacking)
      lines.push_back(fmt::format("{}: not in {}, and searched as named", *lacking, stack));
  };
  // Of each choice one at a time, in a plan whose other choices are the stack's own.
  // A pipeline that has nothing else than what is looked at.
  const auto plain = [&asked] {
    Plan plan;
    plan.pp = 2;
    plan.schedule = asked.software.schedules.empty() ? "1f1b" : asked.software.schedules.front();
    return plan;
  };
  for (const std::string& schedule : asked.schedules) {
    Plan plan = plain();
    plan.schedule = schedule;
    look(plan);
  }
  for (const int zero : asked.zero) {
    Plan plan = plain();
    plan.zero = zero;
    look(plan);
  }
  for (const Recompute& recompute : asked.recompute) {
    Plan plan = plain();
    plan.recompute = recompute;
    look(plan);
  }
  for (const auto& [shares, member] :
       {std::pair(&asked.offload_optimizer, &Plan::offload_optimizer),
        {&asked.offload_activations, &Plan::offload_activations}}) {
    Plan plan = plain();
    for (const double share : *shares) plan.*member = std::max(plan.*member, share);
    if (plan.*member > 0) look(plan);
  }
  Plan following = plain();
  following.lengths.dynamic_cp = asked.dynamic_cp;
  if (asked.dynamic_cp > 0) look(following);
  return lines;
}

namespace {

// Throws UsageError where the devices of no plan can follow sequences' lengths: what the rest of it
// may be is the search's.
void require_can_follow(const weir::SweepRequest& search, const Cluster& cluster) {
  const SequenceLengths& lengths = search.base.lengths;
  if (!lengths.known()) throw UsageError("--dynamic-cp needs --lengths");
  if (lengths.rows != RowsOf::packed) throw UsageError("--dynamic-cp goes with packed rows");
  const int devices = search.devices.value_or(cluster.devices());
  const int longest = lengths.quantiles.back();
  if (devices_of_sequence(longest, search.dynamic_cp) <= devices) return;
  throw UsageError(
      fmt::format("--dynamic-cp {}: the longest sequence has {} tokens, above the {} of {} devices",
                  search.dynamic_cp, longest, std::int64_t{devices} * search.dynamic_cp, devices));
}

}  // namespace

weir::SweepRequest search_for(const SweepRequest& r, const Plan& base, const Cluster& cluster,
                              const Session& session) {
  // An empty list was given: there is nothing to search over.
  for (const auto& [list, name] :
       {std::pair(&r.pp, "pp"), {&r.vpp, "vpp"}, {&r.micro_batch_size, "micro-batch-size"}}) {
    if (list->empty() && session.given(name))
      throw UsageError("sweep: expected at least one of --pp, --vpp and --micro-batch-size");
  }
  weir::SweepRequest search;
  search.base = base;
  search.exact_slots = r.common.slots.has_value();
  search.dynamic_cp = r.dynamic_cp;
  search.folder = ".";
  search.pp = r.pp;
  search.vpp = r.vpp;
  search.slices = r.slices;
  search.microbatches = r.microbatches;
  search.micro_batch_size = r.micro_batch_size;
  search.global_batch_size = r.global_batch_size;
  search.schedules = r.schedule.words;
  search.recompute.clear();
  for (const std::string& mode : r.recompute.words) {
    search.recompute.push_back(parse_recompute(mode, ""));
    // Layers by number are of one partition: a search has many.
    if (search.recompute.back().layers.empty()) continue;
    throw UsageError(
        fmt::format("--recompute {}: a sweep takes none, selective, full, full:N, stage "
                    "and except-last",
                    mode));
  }
  apply(r.parallel, search);
  // What no option names is searched: a named --tp narrows tp, and not what goes with it.
  search.sequence_parallel_where_it_can =
      leaves_degrees_open(r) && !session.given("sequence-parallel");
  // Nobody who searches would leave it off where it only saves time.
  search.overlap_experts_where_it_can = leaves_degrees_open(r) &&
                                        cluster.stack.time.expert_overlap > 0 &&
                                        !session.given("overlap-moe-expert-parallel-comm");
  set_limits(search, r, cluster);
  if (search.dynamic_cp > 0) require_can_follow(search, cluster);
  search.threads = r.threads;
  search.stop = r.stopping;
  search.progress = [&session, watching = r.watching](const SearchProgress& progress) {
    show(progress, session);
    if (watching) watching(progress);
  };
  return search;
}

}  // namespace weir::app
