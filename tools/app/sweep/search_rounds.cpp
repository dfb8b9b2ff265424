// Each round has a file that says where it stands, until the result of all is there.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/search_rounds.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "costmodel/links/offload.hpp"
#include "exec/processes/agreement.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "sim/search/sweep.hpp"
#include "tools/app/sweep/search_file.hpp"

namespace weir::app {
namespace {

bool updates_by_adam(const Optimizer& optimizer) {
  return optimizer.kind == OptimizerKind::adam || optimizer.kind == OptimizerKind::adamw;
}

bool surely_fits(const weir::SweepResult& result) {
  return !result.plans.empty() && result.plans.front().forecast.fits() == Fits::yes;
}

// Whether a search that found nothing that surely fits, or where that is enough nothing that may,
// is asked again with the optimizer's state in the hosts' memory: it was not named, the software
// and the cluster have it, and the space was looked at.
bool may_ask_hosts(const weir::SweepRequest& search, const weir::SweepResult& result,
                   const Cluster& cluster, bool may_fit) {
  // Only of a search that has looked at all of its space, as far as that may fit.
  const bool none = result.plans.empty();
  const bool whole = !result.stopped_after && result.listed && (!none || result.gap == 0);
  const bool answered = none ? result.candidates == 0 : may_fit || surely_fits(result);
  if (!whole || answered) return false;
  const bool named = !search.offload_optimizer.empty() || search.base.offload_optimizer > 0;
  // The trainers' hosts update by Adam alone; so does the host whose time is forecast.
  if (!updates_by_adam(search.base.optimizer)) return false;
  Plan plan = search.base;
  plan.offload_optimizer = 1;
  return !named && search.software.offload_optimizer && !lacks_host(plan, cluster);
}

// A search and the file that says where it stands until all is done: a later one is asked by the
// result of those before it, which must be had again when that one is resumed.
struct Round {
  weir::SweepResult result;
  std::optional<SearchFile> file;  // the first process's: all have the same state
  bool done = false;               // a longer budget would not go on
};

// `name`: of its file, behind the output's.
Round searched(weir::SweepRequest search, const char* name, const SweepReply& reply,
               const Searchers& by) {
  const SweepRequest& r = by.r;
  Round round;
  std::optional<SearchFile>& file = round.file;
  if (r.output)
    file.emplace(r.output->string() + name, search, reply.costs, reply.cluster, by.session);
  if (r.resume && !file) throw UsageError("--resume needs --output, beside which a search stands");
  // Each looks at its share of the candidates: of another search that would be a share of others.
  if (by.others != nullptr) {
    WhatIsRun given = what_is_searched(search, reply.costs, reply.cluster);
    given.emplace_back("budget", r.budget.empty() ? "none" : r.budget);
    given.emplace_back("an unfinished search to go on with", r.resume ? "given" : "not given");
    require_agreement(*by.others, given);
  }
  if (r.resume) {
    // Other processes may not see the first one's file: it tells them.
    std::string text;
    const std::optional<SearchState> state = by.lead() ? file->state() : std::nullopt;
    if (state) text = to_json(*state).dump();
    if (by.party) text = by.party->exchange(text).front();
    if (!text.empty()) search.resume = parse_search_state(parse_json(text, "--resume"), "--resume");
    if (!search.resume) by.session.note("nothing unfinished beside " + r.output->string() + name);
  }
  if (!by.lead()) file.reset();
  if (file) search.checkpoint = [&file](const SearchState& state) { file->keep(state); };
  search.party = by.party;
  round.result = weir::sweep(search, reply.costs, reply.cluster);
  round.done = !round.result.stopped_after && (r.budget.empty() || round.result.gap == 0);
  return round;
}

}  // namespace

void search_all(weir::SweepRequest& search, weir::SweepRequest& asked, SweepReply& reply,
                const Searchers& by) {
  Round first = searched(search, "", reply, by);
  reply.result = std::move(first.result);
  if (!may_ask_hosts(search, reply.result, reply.cluster, by.r.may_fit)) {
    if (first.file) first.file->finish(first.done);
    return;
  }
  // Resumed it is had again, up to where the second one begins.
  if (first.file) first.file->finish(false);
  const char* const why =
      "nothing surely fits with all on the devices: searched with the optimizer's state with "
      "the host (--offload-optimizer)";
  weir::SweepRequest other = search;
  // Half of it updates in half the time, and a host may not hold all.
  other.offload_optimizer = {0.5, 1};
  other.budget = reply.time.left(TimeBound::Part::search);
  Round second = searched(other, ".hosts", reply, by);
  const bool done = first.done && second.done;
  const bool sure = surely_fits(second.result);
  // Where nothing surely fits so either, no list says it.
  if (!sure) by.session.note(why);
  if (sure || reply.result.plans.empty()) {
    if (sure) reply.remarks.emplace_back(why);
    reply.result = std::move(second.result);
    asked.offload_optimizer = other.offload_optimizer;
    search = std::move(other);
  }
  for (auto* file : {&first.file, &second.file})
    if (*file) (*file)->finish(done);
}

}  // namespace weir::app
