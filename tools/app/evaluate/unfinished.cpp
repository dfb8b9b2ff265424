// Runs kept as traces, with what a trace does not say in their info.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/unfinished.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "traces/chrome_json.hpp"

namespace weir::app {
namespace {

constexpr const char* kUnfinishedFolder = "unfinished";
constexpr const char* kAsked = "asked.json";
constexpr const char* kAskedSchema = "weir.unfinished/1";
constexpr const char* kPeaks = "peak_memory_bytes";

// Throws InputError for the first key that differs.
void require_same_asked(const std::filesystem::path& file, const nlohmann::ordered_json& asked) {
  const Json there = parse_json(read_text_file(file), file.string());
  const Json here = Json::parse(asked.dump());
  JsonObject(there, file.string(), "").expect_schema(kAskedSchema);
  for (const auto& [key, value] : here.items()) {
    const Json known = there.contains(key) ? there.at(key) : Json();
    if (known == value) continue;
    throw InputError(
        file.string(), key,
        fmt::format("what was measured there had {}, this has {}", known.dump(), value.dump()));
  }
}

// The hash of what is measured, in a file of its own beside it.
std::filesystem::path seal_beside(const std::filesystem::path& file) {
  return file.string() + ".sha256";
}

// The hash first: a measurement that is there has one.
void write_sealed(const std::filesystem::path& file, const std::string& text) {
  write_file_atomically(seal_beside(file), sha256_hex(text) + "\n");
  write_file_atomically(file, text);
}

// Nothing is learnt from what is not as it was measured. Earlier versions left no hash.
void require_as_written(const std::filesystem::path& file) {
  const std::filesystem::path seal = seal_beside(file);
  std::error_code none;
  if (!std::filesystem::exists(seal, none)) return;
  if (read_text_file(seal) == sha256_hex(read_text_file(file)) + "\n") return;
  throw InputError(file.string(), "", "is damaged: it is not what was measured");
}

std::vector<Bytes> parse_peaks(const std::string& text, const std::string& file) {
  std::vector<Bytes> peaks;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    std::int64_t bytes = -1;
    const char* end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, bytes);
    if (read.ec != std::errc() || read.ptr != end || bytes < 0) {
      throw InputError(file, fmt::format("weir.info.{}", kPeaks),
                       fmt::format("expected bytes, found \"{}\"", word));
    }
    peaks.emplace_back(bytes);
  }
  return peaks;
}

std::string text_of(const Trace& trace, const std::string& key) {
  const auto found = trace.info.find(key);
  return found == trace.info.end() ? std::string() : found->second;
}

}  // namespace

Unfinished::Unfinished(const std::filesystem::path& output, nlohmann::ordered_json asked,
                       bool resume, const Session& session)
    : lock_(output), folder_(output / kUnfinishedFolder), session_(session) {
  asked["schema"] = kAskedSchema;
  const std::filesystem::path file = folder_ / kAsked;
  if (resume && std::filesystem::exists(file)) {
    require_same_asked(file, asked);
    return;
  }
  if (resume) session.log("nothing unfinished in " + folder_.string() + ": from the beginning");
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  if (error) throw InputError(folder_.string(), "", "cannot be removed: " + error.message());
  write_file_atomically(session.output(file), asked.dump(2) + "\n");
}

std::filesystem::path Unfinished::file_of(const std::string& name) const {
  return session_.output(folder_ / (name + ".json"));
}

Costs Unfinished::profile(const std::function<Costs()>& measure) const {
  const std::filesystem::path file = file_of("profile");
  // Read back in either case: what goes on from a file has the very same costs.
  if (!std::filesystem::exists(file)) write_sealed(file, to_json(measure()).dump(1) + "\n");
  require_as_written(file);
  return load_costs(file);
}

std::optional<RunResult> Unfinished::kept(const std::string& name, const ResolvedPlan& plan) const {
  const std::filesystem::path file = file_of(name);
  if (!std::filesystem::exists(file)) return std::nullopt;
  // A file that was cut off or changed since is not taken up.
  require_as_written(file);
  RunResult run;
  run.trace = load_trace(file);
  const std::string of = text_of(run.trace, "plan");
  if (of != to_json(plan.plan) || run.trace.ranks != plan.program.shape().ranks ||
      run.trace.steps.empty() ||
      run.trace.spans.size() != plan.program.size() * run.trace.steps.size()) {
    throw InputError(file.string(), "weir.info.plan", "is not the plan that is measured now");
  }
  run.peak_memory = parse_peaks(text_of(run.trace, kPeaks), file.string());
  const std::string sharing = text_of(run.trace, "sharing");
  if (!sharing.empty()) {
    run.devices.resize(run.peak_memory.size());
    for (DeviceUse& device : run.devices) device.sharing = sharing;
  }
  // What was kept there was for this reader alone.
  run.trace.info.clear();
  return run;
}

void Unfinished::keep(const std::string& name, const ResolvedPlan& plan,
                      const RunResult& run) const {
  std::vector<std::int64_t> peaks;
  for (const Bytes peak : run.peak_memory) peaks.push_back(peak.count());
  Trace trace = run.trace;
  trace.info = {{"plan", to_json(plan.plan)}, {kPeaks, fmt::format("{}", fmt::join(peaks, ","))}};
  if (!run.devices.empty()) trace.info["sharing"] = run.devices.front().sharing;
  write_sealed(file_of(name), to_chrome_json(trace));
}

void Unfinished::put(const std::string& name, std::string_view text) const {
  write_file_atomically(file_of(name), text);
}

void Unfinished::finish() const {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  if (error) throw InputError(folder_.string(), "", "cannot be removed: " + error.message());
}

}  // namespace weir::app
