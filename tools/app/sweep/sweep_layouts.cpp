// Layouts of a search: those of a file, or all that are Megatron's cut.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/sweep/sweep_layouts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  return values;
}

void take(std::vector<int>& list, std::vector<int> from_layouts) {
  if (list.empty()) list = std::move(from_layouts);
}

}  // namespace

std::optional<FileLayouts> taken_layouts(SweepRequest& r, const Model& model,
                                         const Session& session) {
  if (r.layouts.empty()) return std::nullopt;
  if (!r.cluster) throw UsageError("--layouts needs --cluster: this machine runs pipelines alone");
  require_plain(r.parallel.cp, 1, "cp");
  require_plain(r.parallel.etp, 0, "etp");
  require_plain(r.parallel.zero_shards, 0, "zero-shards");
  if (r.layouts == kAll) return std::nullopt;
  FileLayouts file = file_layouts(r.layouts, model, r.common);
  if (file.layouts.empty()) throw InputError(r.layouts, "layouts", file.left_out.front());
  if (session.given("seq-length") && r.common.seq_length != file.seq_length) {
    throw UsageError(fmt::format("--seq-length {} contradicts --layouts, whose is {}",
                                 r.common.seq_length.value_or(0), file.seq_length));
  }
  r.common.seq_length = file.seq_length;
  const auto& all = file.layouts;
  take(r.parallel.tp, each_once(all, [](const StageLayout& one) { return one.cut.tp; }));
  take(r.parallel.dp, each_once(all, [](const StageLayout& one) { return one.cut.dp; }));
  take(r.parallel.ep, each_once(all, [](const StageLayout& one) { return one.cut.ep; }));
  // Without a mini-batch M is given, and b is the layouts'.
  if (!session.given("micro-batch-size")) {
    r.micro_batch_size =
        each_once(all, [](const StageLayout& one) { return one.micro_batch_size.value_or(1); });
  }
  return file;
}

void set_layouts(weir::SweepRequest& search, const SweepRequest& request, const Model& model,
                 const std::optional<FileLayouts>& of_file) {
  if (request.layouts.empty()) return;
  search.layouts = of_file ? of_file->layouts
                           : all_layouts(model, search.base, {search.tp, search.dp, search.ep});
  // ZeRO's third stage is a layout's own, so no layout has it where none has shards.
  const auto shards = [](const StageLayout& one) { return one.cut.zero == 3; };
  const bool some = std::ranges::any_of(*search.layouts, shards);
  const bool each = some && std::ranges::all_of(*search.layouts, shards);
  std::erase_if(search.zero, [&](int zero) { return zero == 3 ? !some : each; });
  if (search.zero.empty()) throw UsageError("--zero contradicts --layouts: no layout has it");
}

std::vector<NamedLayout> listed_layouts(const weir::SweepRequest& search, const Model& model,
                                        const std::vector<Ranked>& plans) {
  std::vector<NamedLayout> all;
  if (!search.layouts) return all;
  for (const Ranked& one : plans) {
    const auto its = std::ranges::find_if(
        *search.layouts, [&](const StageLayout& layout) { return has_layout(one.plan, layout); });
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
