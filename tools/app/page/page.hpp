// `page`: writes an HTML file in which schedules are timed in the browser, without a server or a
// network. Its parts stand beside this header: orders.js makes schedules, reader.js reads the
// user's own, engine.js times them and plan.js a plan, view.js draws, measured.js a measurement;
// cmake/PageParts.cmake compiles them in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "tools/app/page/page_request.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

[[nodiscard]] Fields fields(PageRequest& request);

struct PageResult {
  std::filesystem::path page;
};

[[nodiscard]] PageResult page(const PageRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const PageResult& result);  // weir.page/1

inline constexpr UseCase<PageRequest, PageResult> kPageFile{
    "page", "Write a page on which schedules can be tried in a browser", &page};

}  // namespace weir::app
