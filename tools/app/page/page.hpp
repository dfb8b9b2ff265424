// `page`: writes an HTML file in which schedules are timed in the browser, without a server or a
// network. Its parts stand beside this header: orders.js makes schedules, reader.js reads the
// user's own, engine.js times them and plan.js a plan, view.js draws, measured.js a measurement;
// cmake/PageParts.cmake compiles them in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct PageRequest {
  PlanSource plan;  // none: stages are alike
  TraceSource measured;
  CostsSource costs;
  std::optional<std::filesystem::path> cluster;  // none: this machine
  StackChoice stack;
  std::optional<int> gpus;
  std::string memory_limit;  // "80 GiB"; empty: the named cluster's
  std::filesystem::path output = "page.html";
};
[[nodiscard]] Fields fields(PageRequest& request);

struct PageResult {
  std::filesystem::path page;
};

[[nodiscard]] PageResult page(const PageRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const PageResult& result);  // weir.page/1

inline constexpr UseCase<PageRequest, PageResult> kPageFile{
    "page", "Write a page on which schedules can be tried in a browser", &page};

}  // namespace weir::app
