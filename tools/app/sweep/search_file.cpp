// A search's state in its file, and whose it is.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/search_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/job/plan_json.hpp"
#include "plan/text/seal.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/version.hpp"

namespace weir::app {
namespace {

constexpr const char* kSchema = "weir.search/1";

// Not how fast and by how many it is searched, which the result does not follow from.
Json asked_of(const weir::SweepRequest& search, const Costs& costs, const Cluster& cluster) {
  Json recompute = Json::array();
  // A plan's words are how re-materialisation is written in files: one plan lends them, mode by
  // mode.
  for (Plan plan = search.base; const Recompute& one : search.recompute) {
    plan.recompute = one;
    recompute.push_back(plan_json(plan).at("recompute"));
  }
  Json orders = Json::array();
  for (const RankOrder order : search.rank_order) orders.push_back(to_string(order));
  Json graphs = Json::array();
  for (const CudaGraphs& one : search.cuda_graphs) graphs.push_back(to_string(one));
  Json layouts;  // null where any degrees are searched
  if (search.layouts) layouts = Json::array();
  for (const StageLayout& one : search.layouts.value_or(std::vector<StageLayout>())) {
    const layout::MegatronCut& cut = one.cut;
    layouts.push_back({one.name, cut.tp, cut.dp, cut.ep, cut.sequence_parallel, cut.zero,
                       or_null(one.micro_batch_size)});
  }
  return {{"weir", version_line()},
          {"base", plan_json(search.base)},
          {"pp", search.pp},
          {"vpp", search.vpp},
          {"tp", search.tp},
          {"cp", search.cp},
          {"dp", search.dp},
          {"ep", search.ep},
          {"etp", search.etp},
          {"slices", search.slices},
          {"layouts", layouts},
          {"zero", search.zero},
          {"zero_shards", search.zero_shards},
          {"rank_order", orders},
          {"cuda_graphs", graphs},
          {"offload_optimizer", search.offload_optimizer},
          {"offload_activations", search.offload_activations},
          {"overlap_experts_where_it_can", search.overlap_experts_where_it_can},
          {"dynamic_cp", search.dynamic_cp},
          {"sequence_parallel_where_it_can", search.sequence_parallel_where_it_can},
          {"devices", or_null(search.devices)},
          {"exact_devices", search.exact_devices},
          {"microbatches", search.microbatches},
          {"micro_batch_size", search.micro_batch_size},
          {"global_batch_size", or_null(search.global_batch_size)},
          {"schedules", search.schedules},
          {"recompute", recompute},
          {"exact_slots", search.exact_slots},
          {"memory_limit_bytes", search.memory_limit ? Json(search.memory_limit->count()) : Json()},
          {"plans", or_null(search.keep)},
          {"effort", search.effort},
          {"costs_sha256", sha256_hex(to_json(costs).dump())},
          {"cluster_sha256", sha256_hex(to_json(cluster) + cluster.stack.name)}};
}

}  // namespace

WhatIsRun what_is_searched(const weir::SweepRequest& search, const Costs& costs,
                           const Cluster& cluster) {
  constexpr std::size_t kShown = 60;  // a longer value by its hash
  WhatIsRun all;
  const Json asked = asked_of(search, costs, cluster);
  for (const auto& [key, value] : asked.items()) {
    const std::string text = value.dump();
    all.emplace_back(key, text.size() > kShown ? sha256_hex(text) : text);
  }
  return all;
}

SearchFile::SearchFile(const std::filesystem::path& output, const weir::SweepRequest& search,
                       const Costs& costs, const Cluster& cluster, const Session& session)
    : file_(session.output(std::filesystem::path(output.string() + ".search"))),
      asked_(asked_of(search, costs, cluster).dump()) {}

std::optional<SearchState> SearchFile::state() const {
  if (!std::filesystem::exists(file_)) return std::nullopt;
  const std::string file = file_.string();
  const std::string text = read_text_file(file_);
  const Json json = parse_json(text, file);
  JsonObject object(json, file, "");
  object.expect_schema(kSchema);
  // Sealed: a state that was cut off would leave out plans without a word.
  require_seal(text, file);
  static_cast<void>(object.text("sha256"));
  const Json& asked = object.at("asked");
  const Json& search = object.at("search");
  object.finish();
  const Json here = Json::parse(asked_);
  // The first key that differs is told: a search goes on only as the one that was interrupted.
  for (const auto& [key, value] : here.items()) {
    const Json there = asked.is_object() && asked.contains(key) ? asked.at(key) : Json();
    if (there == value) continue;
    throw InputError(
        file, "asked." + key,
        fmt::format("that search had {}, this one has {}", there.dump(), value.dump()));
  }
  return parse_search_state(search, file);
}

void SearchFile::keep(const SearchState& state) {
  last_ = state;
  const auto now = std::chrono::steady_clock::now();
  if (written_ && now - *written_ < std::chrono::seconds(1)) return;
  written_ = now;
  write();
}

void SearchFile::write() {
  const Json json{{"schema", kSchema}, {"asked", Json::parse(asked_)}, {"search", to_json(*last_)}};
  write_file_atomically(file_, sealed_text(json, -1));
}

void SearchFile::finish(bool done) {
  if (!done) {
    if (last_) write();
    return;
  }
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (error) throw InputError(file_.string(), "", "cannot be removed: " + error.message());
}

}  // namespace weir::app
