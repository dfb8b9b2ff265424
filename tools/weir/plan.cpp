// What people read of `weir plan`: the plan itself where no file takes it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/plan/plan.hpp"

#include <fmt/core.h>

#include "plan/words/error.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::PlanRequest& request, const app::PlanResult& result) {
  const Plan& plan = result.plan.loaded.plan;
  if (result.plan.schedule_in_memory)
    throw UsageError("--schedule exec: and auto need -o: the schedule is kept beside the plan");
  if (const auto remark = app::remark_on(request.stack, result.stack)) note(*remark);
  for (const std::string& choice : result.choices) note(choice);
  if (!result.written) {
    out.say("{}", to_json(plan));
    return;
  }
  out.say("{}: {}\n", request.output->string(), summary(plan));
  if (result.imported) out.say("{}\n", result.imported->model.string());
}

}  // namespace weir
