// `reproduce`: published numbers beside Weir's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/app/shared/field.hpp"
#include "tools/reproduce/measured/cross_validation.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir::app {

struct ReproduceRequest {
  std::vector<std::string> cases;                  // none: all
  std::optional<std::filesystem::path> published;  // folder; none: the tables compiled in
  std::optional<std::filesystem::path> csv;
  bool list = false;
  bool cross_validate = false;                  // measured runs against the aims, not the cases
  std::optional<std::filesystem::path> errors;  // builtin_interval()'s table; with cross_validate
};
[[nodiscard]] Fields fields(ReproduceRequest& request);

struct ReproduceResult {
  std::vector<CaseResult> cases;  // of a list and of a cross-validation none
  std::optional<CrossValidation> cross_validation;
};

// Throws UsageError for a case that there is none of, and for cases beside a cross-validation,
// which takes all.
[[nodiscard]] ReproduceResult reproduce(const ReproduceRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const ReproduceResult& result);  // weir.reproduction/1
[[nodiscard]] std::string json_text(const ReproduceResult& result);           // nothing of a list

inline constexpr UseCase<ReproduceRequest, ReproduceResult> kReproduce{
    "reproduce", "Published tables: published, predicted and error side by side", &reproduce};

}  // namespace weir::app
