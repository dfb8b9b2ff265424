// What people paste or drop: a job of another tool, a plan, a model, and files that go with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/serve/answer.hpp"
#include "tools/serve/workplace.hpp"

namespace weir {

// {"files": [{"name", "text"}], and of a job what `weir plan --from` takes}: kept in a folder of
// its own, and read by what it is. The answer has `plan` or `model`, the file that other requests
// name, and weir.import/1 or weir.model/1 as `result`; null where a plan was given.
[[nodiscard]] Answer job_answer(Workplace& workplace, const Json& body);

// {"job": its folder, "name", "text"}: a file beside a job, as a log or a trace; its path.
[[nodiscard]] Answer file_answer(Workplace& workplace, const Json& body);

}  // namespace weir
