// The page put together: its parts, the table of schedules and the colours that pictures have.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/page/page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/schedule/generators/generators.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/page/page_parts.hpp"
#include "tools/app/page/plan_page.hpp"
#include "tools/app/schedule/schedule.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/report/page.hpp"
#include "tools/report/palette.hpp"
#include "tools/report/svg.hpp"

namespace weir::app {
namespace {

// --F is the fill of a forward, --F-on what is written on it; view.js reads them.
std::string colours_of_actions() {
  const auto all = [](const Colour Paint::*page) {
    std::string rules;
    const auto add = [&](const std::string& name, const Paint& fill) {
      rules += fmt::format("--{}:{};--{}-on:{};", name, css(fill.*page), name,
                           css(label_on(fill).*page));
    };
    for (const ActionKind kind : kComputeKinds)
      add(std::string(to_string(kind)), colours(Palette::standard)[kind]);
    return rules + fmt::format("--blue:{};--red:{};", css(kBlue.*page), css(kRed.*page));
  };
  return fmt::format(":root{{{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}\n",
                     all(&Paint::light), all(&Paint::dark));
}

}  // namespace

Fields fields(PageRequest& r) {
  return {{"plan", &r.plan, "Plan file: its stages and costs (default: stages that are alike)"},
          {"--trace", &r.measured, "Measured trace of the plan, drawn beside its forecast"},
          {"--costs", &r.costs, "Costs file (default: built in)"},
          {"--cluster", &r.cluster, "Cluster file or name (default: this machine)"},
          stack_field(r.stack),
          gpus_field(r.gpus),
          {"--memory-limit", &r.memory_limit, "Memory of a device, as \"80 GiB\""},
          {"-o,--output", &r.output, "HTML file to write", {.writes = Writes::file}}};
}

PageResult page(const PageRequest& r, const Session& session) {
  if (!is_given(r.plan)) {
    session.refuse({"trace", "costs", "cluster", "stack", "gpus", "memory-limit"},
                   "goes with a plan");
  }
  const PageParts parts = page_parts();
  const nlohmann::ordered_json plan =
      is_given(r.plan) ? plan_for_page(r, session) : nlohmann::ordered_json();
  // An empty result is the list of schedules; the page makes those of whole vocabularies.
  nlohmann::ordered_json schedules = to_json(ScheduleResult{});
  std::erase_if(schedules["schedules"].get_ref<nlohmann::ordered_json::array_t&>(),
                [](const auto& schedule) {
                  return divides_vocabulary(schedule["name"].template get<std::string>());
                });
  const std::string body = fmt::format(
      "<style>{}{}</style>\n{}{}{}"
      "<script id=\"engine\">{}</script>\n<script id=\"view\">{}</script>\n",
      colours_of_actions(), parts.style, parts.body, data_part("schedules", schedules),
      data_part("planned", plan), parts.engine, parts.view);
  write_file_atomically(session.output(r.output),
                        html_page(is_given(r.plan) ? "A plan, live" : "Pipeline schedules, live",
                                  body, provenance(session, 1)));
  return {r.output};
}

nlohmann::ordered_json to_json(const PageResult& result) {
  return {{"schema", "weir.page/1"}, {"page", result.page.string()}};
}

}  // namespace weir::app
