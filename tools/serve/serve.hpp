// `serve`: the commands behind a page, for a browser on this machine. answers.hpp says what it may
// ask; http.cpp alone knows HTTP, confine.hpp keeps requests to the folder, and the page's own
// parts (body.html, style.css, serve.js) are compiled in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/app/shared/field.hpp"
#include "tools/serve/serve_request.hpp"

namespace weir {

[[nodiscard]] app::Fields fields(ServeRequest& request);

struct ServeResult {
  int stopped_by = 0;
};

// Answers until `stopping` says a signal. From then on this process is held to the folder
// (confine.hpp). Throws MissingComponent, InputError or RunFailed where it cannot begin.
[[nodiscard]] ServeResult serve(const ServeRequest& request, const app::Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const ServeResult& result);  // null
[[nodiscard]] inline int stopped_by(const ServeResult& result) { return result.stopped_by; }

inline constexpr app::UseCase<ServeRequest, ServeResult> kServe{
    "serve", "Answer a page in a browser on this machine: jobs, forecasts, searches, runs", &serve};

}  // namespace weir
