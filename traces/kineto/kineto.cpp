// The files of a job, one a rank, into one trace.
// SPDX-License-Identifier: Apache-2.0
#include "traces/kineto/kineto.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "plan/words/error.hpp"
#include "traces/kineto/clocks.hpp"
#include "traces/kineto/events_json.hpp"
#include "traces/kineto/rank_steps.hpp"

namespace weir {
namespace {

// The number behind the last "rank" of a file's name: rank3, rank-3, rank_3.
std::optional<std::int32_t> rank_in_name(const std::string& name) {
  const auto at = name.rfind("rank");
  if (at == name.npos) return std::nullopt;
  auto digits = at + 4;
  if (digits < name.size() && (name[digits] == '-' || name[digits] == '_' || name[digits] == '.'))
    ++digits;
  std::int32_t rank = 0;
  const auto [end, error] = std::from_chars(name.data() + digits, name.data() + name.size(), rank);
  if (error != std::errc() || rank < 0) return std::nullopt;
  return rank;
}

struct RankFile {
  std::filesystem::path path;
  std::int32_t rank = 0;
};

// Which of the job's ranks make up the pipeline: all of them or, where the job has more, those that
// lie as Megatron and torchtitan lay a pipeline, the same distance apart.
void expect_all(const std::vector<RankFile>& files, std::int32_t wanted, std::int32_t world) {
  // Of a larger job the user has picked as many files as the plan has ranks.
  if (world > wanted && static_cast<std::int32_t>(files.size()) == wanted) return;
  if (wanted == 1 && files.size() == 1) return;  // whichever of a job's ranks it was
  // Pipelines lie side by side with tensor- and data-parallel ranks between: a constant distance.
  const std::int32_t stride = world > wanted && world % wanted == 0 ? world / wanted : 1;
  std::vector<std::int32_t> found, expected, missing, foreign;
  for (const RankFile& file : files) found.push_back(file.rank);
  for (std::int32_t i = 0; i < wanted; ++i) expected.push_back(found.front() % stride + i * stride);
  std::set_difference(expected.begin(), expected.end(), found.begin(), found.end(),
                      std::back_inserter(missing));
  std::set_difference(found.begin(), found.end(), expected.begin(), expected.end(),
                      std::back_inserter(foreign));
  if (missing.empty() && foreign.empty()) return;
  std::string message =
      fmt::format("the plan has K = {} ranks and needs a trace of each: ", wanted);
  if (!missing.empty()) message += fmt::format("rank {} missing", fmt::join(missing, ", "));
  if (!foreign.empty())
    message += fmt::format("{}rank {} not expected", missing.empty() ? "" : "; ",
                           fmt::join(foreign, ", "));
  throw InputError(files.front().path.string(), "distributedInfo.rank", message);
}

std::vector<RankFile> order_files(std::span<const std::filesystem::path> paths,
                                  std::int32_t wanted) {
  std::vector<RankFile> files;
  std::int32_t world = 0;
  for (const std::filesystem::path& path : paths) {
    // Reading ends behind distributedInfo: the events, which are most of a file, are read once,
    // later.
    const KinetoIdentity identity = read_kineto_identity(path);
    auto rank = identity.rank ? identity.rank : rank_in_name(path.filename().string());
    if (wanted == 1 && paths.size() == 1) rank = rank.value_or(0);
    if (!rank)
      throw InputError(path.string(), "distributedInfo.rank",
                       "is missing, and the file's name has no \"rank3\" either");
    files.push_back({path, *rank});
    world = std::max(world, identity.world_size.value_or(0));
  }
  if (files.empty()) throw InputError("traces", "", "expected at least one file");
  std::ranges::stable_sort(files, {}, &RankFile::rank);
  for (std::size_t i = 1; i < files.size(); ++i) {
    if (files[i].rank == files[i - 1].rank)
      throw InputError(
          files[i].path.string(), "distributedInfo.rank",
          fmt::format("rank {} again, as in {}", files[i].rank, files[i - 1].path.string()));
  }
  expect_all(files, wanted, world);
  return files;
}

}  // namespace

KinetoTrace read_kineto(const Program& program, std::span<const std::filesystem::path> paths) {
  const std::vector<RankFile> files = order_files(paths, program.shape().ranks);
  KinetoTrace result;
  std::vector<RankSteps> ranks;
  for (std::size_t r = 0; r < files.size(); ++r) {
    const KinetoEvents events = read_kineto_events(files[r].path);
    ranks.push_back(place_rank(program, Rank{static_cast<std::int32_t>(r)}, events));
    const RankSteps& placed = ranks.back();
    if (placed.numbers != ranks.front().numbers)
      throw InputError(
          placed.file, "ProfilerStep",
          fmt::format("recorded steps [{}], but rank 0 recorded [{}]",
                      fmt::join(placed.numbers, ", "), fmt::join(ranks.front().numbers, ", ")));
    if (placed.on_host != ranks.front().on_host)
      throw InputError(placed.file, "traceEvents",
                       placed.on_host ? "holds no GPU kernels, and rank 0's file does"
                                      : "holds GPU kernels, and rank 0's file none");
    if (r == 0 && !events.device.empty()) result.trace.info["device"] = events.device;
    result.ranks.push_back({placed.file, files[r].rank, placed.named, Nanoseconds(0)});
    result.notes.insert(result.notes.end(), placed.notes.begin(), placed.notes.end());
  }
  result.on_host = ranks.front().on_host;
  if (result.on_host) result.trace.info["device"] = kKinetoHost;
  if (result.on_host && ranks.size() > 1)
    result.notes.emplace_back(
        "gloo marks a message until it was waited for: its time is at most what is shown");
  const Alignment alignment = align_clocks(program, ranks);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    result.ranks[r].clock_offset = alignment.offset.front()[r];
  result.alignment_error = alignment.error;
  result.steps = ranks.front().numbers;
  // trace_of_ranks() makes a new trace, which knows nothing of what was found so far.
  auto info = std::move(result.trace.info);
  result.trace = trace_of_ranks(program, ranks, alignment);
  result.trace.info.merge(info);
  result.trace.info["backend"] = "PyTorch profiler (Kineto)";
  return result;
}

}  // namespace weir
