// Layouts of a search: those of a file, or all that are Megatron's cut.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_layouts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/model/split.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

constexpr const char* kAll = "all";

// The values of a list are what no layout can differ from: it has no word for others.
void require_plain(std::vector<int>& list, int plain, const char* option) {
  if (std::ranges::any_of(list, [plain](int value) { return value != plain; }))
    throw UsageError(fmt::format("--{} contradicts --layouts: no layout has it", option));
  list = {plain};
}

template <class Of>
std::vector<int> each_once(const std::vector<StageLayout>& layouts, Of of) {
  std::vector<int> values;
  for (const StageLayout& one : layouts) values.push_back(of(one));
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

bool has(const std::vector<int>& list, int value) {
  return std::ranges::find(list, value) != list.end();
}

// An option's list where none was given: what the layouts have. Each value given is one of theirs.
void take(std::vector<int>& list, std::vector<int> from_layouts, bool given, const char* option) {
  if (!given) {
    list = std::move(from_layouts);
    return;
  }
  for (const int value : list) {
    if (has(from_layouts, value)) continue;
    throw UsageError(fmt::format("--{} {} contradicts --layouts, whose are {}", option, value,
                                 fmt::join(from_layouts, ", ")));
  }
}

bool has_shards(const StageLayout& one) { return one.cut.zero == 3; }

// ZeRO's third stage is a layout's own; the others too, or left open where it divides nothing of
// what is kept of weights.
bool leaves_open(const StageLayout& one, int zero) {
  return one.cut.zero == 0 ? zero != 3 : one.cut.zero == zero;
}
bool left_open(const std::vector<StageLayout>& layouts, int zero) {
  return std::ranges::any_of(layouts,
                             [zero](const StageLayout& one) { return leaves_open(one, zero); });
}

void require_zero(const SweepRequest& r, const std::vector<StageLayout>& layouts) {
  for (const int zero : r.parallel.zero) {
    if (left_open(layouts, zero)) continue;
    if (zero == 3) throw UsageError("--zero 3 contradicts --layouts: none has shards of weights");
    const bool each = std::ranges::all_of(layouts, has_shards);
    throw UsageError(fmt::format(
        "--zero {} contradicts --layouts: {}", zero,
        each ? "all have shards of weights" : "all divide otherwise what is kept of weights"));
  }
}

// Why the search has no candidate with a layout; nothing where it has.
std::optional<std::string> why_unused(const weir::SweepRequest& search, const StageLayout& one,
                                      const Model& model) {
  const layout::MegatronCut& cut = one.cut;
  const auto lacks = [](const std::vector<int>& list, int value, const char* option) {
    return has(list, value) ? std::nullopt
                            : std::optional(fmt::format("--{} is not {}", option, value));
  };
  if (auto why = lacks(search.tp, cut.tp, "tp")) return why;
  if (auto why = lacks(search.dp, cut.dp, "dp")) return why;
  if (auto why = lacks(search.ep, cut.ep, "ep")) return why;
  const bool stage = std::ranges::any_of(
      search.zero, [&](int zero) { return leaves_open(one, zero) || cut.dp == 1; });
  if (!stage) {
    const std::string has = cut.zero == 0   ? "no shards of weights"
                            : cut.zero == 3 ? "shards of weights"
                                            : fmt::format("ZeRO's stage {}", cut.zero);
    return fmt::format("it has {}, and ZeRO's stages are {} (--zero, or the stack's)", has,
                       fmt::join(search.zero, ", "));
  }
  if (search.base.sequence_parallel && !cut.sequence_parallel && cut.tp > 1)
    return "it has rows whole (--sequence-parallel, or the baseline, splits them)";
  const auto misfit = cannot_split(model, search.base.seq_length,
                                   {.tp = cut.tp, .sequence_parallel = cut.sequence_parallel});
  if (misfit) return fmt::format("{}: {}", misfit->key, misfit->reason);
  weir::SweepRequest part = search;
  part.layouts = std::vector{one};
  const std::vector<Plan> plans = with_degrees(part, model);
  if (plans.empty()) {
    return fmt::format("no K makes its {} devices the {} of a plan", cut.tp * cut.dp,
                       search.devices.value_or(0));
  }
  if (std::ranges::all_of(plans, [&](const Plan& plan) { return batches(part, plan).empty(); })) {
    return fmt::format("no number of micro-batches makes {} of {} samples each",
                       search.global_batch_size.value_or(0) / cut.dp,
                       one.micro_batch_size.value_or(1));
  }
  return std::nullopt;
}

}  // namespace

std::optional<FileLayouts> taken_layouts(SweepRequest& r, const Model& model,
                                         const Session& session) {
  if (!r.layouts) return std::nullopt;
  if (!r.cluster) throw UsageError("--layouts needs --cluster: this machine runs pipelines alone");
  require_plain(r.parallel.cp, 1, "cp");
  require_plain(r.parallel.etp, 0, "etp");
  require_plain(r.parallel.zero_shards, 0, "zero-shards");
  if (*r.layouts == kAll) return std::nullopt;
  FileLayouts file = file_layouts(*r.layouts, model, r.common);
  if (file.layouts.empty()) throw InputError(r.layouts->string(), "layouts", file.left_out.front());
  if (session.given("seq-length") && r.common.seq_length != file.seq_length) {
    throw UsageError(fmt::format("--seq-length {} contradicts --layouts, whose is {}",
                                 r.common.seq_length.value_or(0), file.seq_length));
  }
  r.common.seq_length = file.seq_length;
  const auto& all = file.layouts;
  const auto take_degree = [&](std::vector<int>& list, const char* option, auto of) {
    take(list, each_once(all, of), session.given(option), option);
  };
  take_degree(r.parallel.tp, "tp", [](const StageLayout& one) { return one.cut.tp; });
  take_degree(r.parallel.dp, "dp", [](const StageLayout& one) { return one.cut.dp; });
  take_degree(r.parallel.ep, "ep", [](const StageLayout& one) { return one.cut.ep; });
  // Without a mini-batch M is given, and b is the layouts'.
  take(r.micro_batch_size,
       each_once(all, [](const StageLayout& one) { return one.micro_batch_size.value_or(1); }),
       session.given("micro-batch-size"), "micro-batch-size");
  if (session.given("zero")) require_zero(r, all);
  const auto rows = [](const StageLayout& one) { return one.cut.sequence_parallel; };
  if (session.given("sequence-parallel") && std::ranges::none_of(all, rows))
    throw UsageError("--sequence-parallel contradicts --layouts: all have rows whole");
  return file;
}

void set_layouts(weir::SweepRequest& search, const SweepRequest& request, const Model& model,
                 const std::optional<FileLayouts>& of_file, const Session& session) {
  if (!request.layouts) return;
  std::string why;
  if (of_file) {
    search.layouts.emplace();
    for (const StageLayout& one : of_file->layouts) {
      const auto unused = why_unused(search, one, model);
      if (!unused) {
        search.layouts->push_back(one);
        continue;
      }
      why = fmt::format("layout {}: {}", one.name, *unused);
      session.note(why);
    }
  } else {
    AllLayouts all =
        all_layouts(model, search.base, {search.tp, search.dp, search.ep, search.zero});
    search.layouts = std::move(all.layouts);
    if (!all.no_shards.empty())
      session.note("layouts with shards of weights are left out: " + all.no_shards);
    why = all.no_shards.empty() ? all.left_out : all.no_shards;
  }
  // Stages of ZeRO that no layout has left are no choice: each would be refused plan by plan.
  std::erase_if(search.zero, [&](int zero) { return !left_open(*search.layouts, zero); });
  if (search.layouts->empty() || search.zero.empty())
    throw UsageError(fmt::format("no layout is left to search: {}", why));
}

std::vector<NamedLayout> listed_layouts(const weir::SweepRequest& search, const Model& model,
                                        const std::vector<Ranked>& plans) {
  std::vector<NamedLayout> all;
  if (!search.layouts) return all;
  for (const Ranked& one : plans) {
    const auto named = [&](bool as_it_is) {
      return std::ranges::find_if(*search.layouts, [&](const StageLayout& layout) {
        return has_layout(one.plan, layout) && (!as_it_is || layout.cut.zero == one.plan.zero);
      });
    };
    // One that says the stage of ZeRO itself, before one that leaves it open.
    auto its = named(true);
    if (its == search.layouts->end()) its = named(false);
    all.push_back({its == search.layouts->end() ? std::string() : its->name,
                   layout_in_words(model, one.plan)});
  }
  return all;
}

std::string to_text(const NamedLayout& layout) {
  const auto& [mesh, rules] = layout.words;
  const std::string what = mesh.empty() ? "one device" : fmt::format("{} on {}", rules, mesh);
  return layout.name.empty() ? what : fmt::format("{}: {}", layout.name, what);
}

nlohmann::ordered_json to_json(const NamedLayout& layout) {
  nlohmann::ordered_json json;
  if (!layout.name.empty()) json["name"] = layout.name;
  json["mesh"] = layout.words.mesh;
  json["rules"] = layout.words.rules;
  return json;
}

}  // namespace weir::app
