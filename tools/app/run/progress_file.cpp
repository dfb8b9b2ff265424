// Written beside and renamed, so that who reads has a whole one.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/progress_file.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "plan/job/summary.hpp"

namespace weir::app {
namespace {

std::filesystem::path beside(std::filesystem::path file) { return file += ".tmp"; }

}  // namespace

ProgressFile::ProgressFile(const std::filesystem::path& folder, const Plan& plan,
                           std::string backend)
    : file_(folder / "progress.json"),
      plan_(summary(plan)),
      backend_(std::move(backend)),
      tokens_(static_cast<double>(plan.global_batch_size()) * static_cast<double>(plan.seq_length)),
      trains_(backend_ != "synthetic") {}

ProgressFile::~ProgressFile() {
  std::error_code none;  // what is not there need not go
  std::filesystem::remove(file_, none);
  std::filesystem::remove(beside(file_), none);
}

void ProgressFile::tell(const StepReport& report) {
  constexpr std::chrono::milliseconds kBetween(500);
  const auto now = std::chrono::steady_clock::now();
  if (written_ && now - *written_ < kBetween) return;
  written_ = now;
  const double time = report.time.count();
  nlohmann::ordered_json json{{"schema", "weir.progress/1"},
                              {"backend", backend_},
                              {"plan", plan_},
                              {"step", report.step},
                              {"of", report.step + report.of - report.done},
                              {"loss", nullptr},
                              {"step_time_s", time},
                              {"tokens_per_s", nullptr}};
  if (trains_) json["loss"] = report.loss;
  if (tokens_ > 0 && time > 0) json["tokens_per_s"] = tokens_ / time;
  {
    std::ofstream out(beside(file_), std::ios::trunc);
    out << json.dump() << '\n';
    if (!out.flush()) return;
  }
  std::error_code none;  // the one before stays
  std::filesystem::rename(beside(file_), file_, none);
}

}  // namespace weir::app
