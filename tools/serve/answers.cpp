// A table of what may be asked: each name with the function that answers it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>

#include "plan/job/plan.hpp"
#include "plan/job/resolve.hpp"
#include "plan/text/bytes_file.hpp"
#include "plan/text/text_file.hpp"
#include "plan/text/utf8.hpp"
#include "plan/words/error.hpp"
#include "sim/explain/plan_changes.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/calibrate/calibrate.hpp"
#include "tools/app/compare/explain.hpp"
#include "tools/app/page/page.hpp"
#include "tools/app/simulate/simulate.hpp"
#include "tools/app/sweep/edits.hpp"
#include "tools/app/sweep/sweep.hpp"
#include "tools/serve/asked.hpp"
#include "tools/serve/body_fields.hpp"
#include "tools/serve/pasted_job.hpp"

namespace weir {
namespace {

using Names = std::vector<std::string_view>;
const Names kMachine{"cluster", "stack", "costs", "gpus", "memory-limit"};

Names with_machine(Names names) {
  names.insert(names.end(), kMachine.begin(), kMachine.end());
  return names;
}

Json json_of(const std::string& body) {
  if (utf8_prefix(body) != body.size()) throw InputError(kRequest, "", "is not UTF-8");
  return parse_json(body, kRequest);
}

Answer simulate_answer(Workplace& workplace, const Json& body) {
  const Asked asked(app::kSimulate, with_machine({"plan", "train-tokens"}), body);
  const auto lock = turn(workplace);
  const app::SimulateResult result = asked.run();
  return {.body = asked.envelope(result, to_json(result)).dump()};
}

Answer explain_answer(Workplace& workplace, const Json& body) {
  Asked asked(app::kExplain, with_machine({"plan", "any-schedule", "measured", "train-tokens"}),
              body);
  const auto lock = turn(workplace);
  return in_new_folder(workplace, [&](const std::filesystem::path& folder) -> Answer {
    // The changed plans are files, so that a forecast of one can be asked for.
    asked.request.plans = folder;
    const app::ExplainResult result = asked.run();
    Json json = asked.envelope(result, to_json(result));
    json["plans"] = folder.string();
    return {.body = json.dump()};
  });
}

// Costs that measured steps have corrected, as a file that other requests name as theirs.
Answer calibrate_answer(Workplace& workplace, const Json& body) {
  // What the page may say, of what the command takes: without figures it would fit traces.
  Names allowed{"measured", "cluster", "stack", "gpus"};
  app::CalibrateRequest said;
  if (!fill(app::fields(said), allowed, body).contains("measured"))
    throw InputError(kRequest, "measured", "is missing");
  allowed.emplace_back("output");
  const auto lock = turn(workplace);
  return in_new_folder(workplace, [&](const std::filesystem::path& folder) -> Answer {
    const std::string costs = folder / "costs.json";
    Json with_output = body;
    with_output["output"] = costs;
    const Asked asked(app::kCalibrate, allowed, with_output);
    const app::CalibrateResult result = asked.run();
    Json told = asked.envelope(result, to_json(result));
    told["costs"] = costs;
    return {.body = told.dump()};
  });
}

// The page itself, which a frame shows.
Answer page_answer(Workplace& workplace, const Json& body) {
  Asked asked(app::kPageFile, with_machine({"plan", "trace"}), body);
  const auto lock = turn(workplace);
  asked.request.output = workplace.folder / "page.html";
  const std::string html = read_bytes(asked.run().page);
  return {.type = "text/html; charset=utf-8", .body = html};
}

// What one plan has otherwise than another, of how a step is run.
// Keys of the plan that differ, and the arguments of its job, where it keeps those of a trainer
// that has words for the other.
Answer changes_answer(Workplace& /*workplace*/, const Json& body) {
  JsonObject request(body, kRequest, "");
  const auto from_file = path_within(request.text("from"), "from");
  const Plan from = parse_plan(read_text_file(from_file), from_file.string());
  const ResolvedPlan to = load_plan(path_within(request.text("to"), "to"));
  request.finish();
  Json rows = Json::array(), arguments;
  for (const PlanChange& change : step_changes(from, to.plan))
    rows.push_back({{"key", change.key}, {"before", change.before}, {"after", change.after}});
  const auto or_null = [](const std::optional<std::string>& text) {
    return text ? Json(*text) : Json();
  };
  const app::Edits edits = app::edits_between(from, to);
  if (edits.of_job) {
    arguments = Json::array();
    for (const app::Edit& edit : edits.all) {
      arguments.push_back(
          {{"name", edit.name}, {"before", or_null(edit.before)}, {"after", or_null(edit.after)}});
    }
  }
  Json notes = Json::array();
  for (const std::string& line : app::not_carried_lines(edits)) notes.push_back(line);
  return {.body = Json{{"result", rows}, {"arguments", arguments}, {"notes", notes}}.dump()};
}

Answer stop_answer(Workplace& workplace, const Json& body) {
  static_cast<void>(fill({}, {}, body));
  workplace.stop_search = true;
  return {.body = R"({"result":null,"notes":[]})"};
}

struct Answered {
  std::string_view name;
  Answer (*answer)(Workplace&, const Json&);
};
constexpr std::array kAnswered{Answered{"job", &job_answer},
                               Answered{"file", &file_answer},
                               Answered{"simulate", &simulate_answer},
                               Answered{"explain", &explain_answer},
                               Answered{"calibrate", &calibrate_answer},
                               Answered{"page", &page_answer},
                               Answered{"changes", &changes_answer},
                               Answered{"stop", &stop_answer}};

Json progress_json(const SearchProgress& progress) {
  Json front = Json::array();
  if (progress.front) {
    for (const FrontPoint& point : progress.front())
      front.push_back({{"step_time_s", point.step.count()},
                       {"peak_memory_bytes", point.peak.count()},
                       {"plan", point.plan}});
  }
  return {{"done", progress.done},
          {"of", progress.of},
          {"seconds", progress.seconds},
          {"best_step_time_s", progress.best ? Json(progress.best->count()) : Json()},
          {"front", std::move(front)}};
}

// A search's own options; where its files go is this program's.
const Names kSearched{"model",    "seq-length", "dtype",        "global-batch-size",
                      "pp",       "vpp",        "microbatches", "micro-batch-size",
                      "tp",       "cp",         "dp",           "ep",
                      "zero",     "schedule",   "recompute",    "budget",
                      "baseline", "at-most",    "may-fit",      "any-schedule",
                      "explain",  "top"};

}  // namespace

Answer answer(Workplace& workplace, std::string_view name, const std::string& body) {
  try {
    const auto row = std::ranges::find(kAnswered, name, &Answered::name);
    if (row == kAnswered.end())
      return {404, "application/json",
              error_json({EndKind::usage, fmt::format("{}: nothing of that name", name)}).dump()};
    return row->answer(workplace, json_of(body));
  } catch (...) {
    return answer_of_error();
  }
}

void search(Workplace& workplace, const std::string& body, const Listener& listener) {
  // One whose page has gone ends with its next candidate: the one after it waits for that.
  constexpr std::chrono::seconds kPatience(5);
  const std::unique_lock searching(workplace.searching, kPatience);
  try {
    if (!searching.owns_lock()) throw Busy("another search runs: stop it, or wait for its end");
    workplace.stop_search = false;
    Asked asked(app::kSweep, with_machine(kSearched), json_of(body));
    app::SweepRequest& request = asked.request;
    // Whoever has gone needs no result.
    request.stopping = [&] {
      const bool stops = workplace.stop_search || workplace.ended || !listener.listens();
      return stops ? SIGINT : 0;
    };
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kBetween(200);
    Clock::time_point told = Clock::now() - kBetween;
    request.watching = [&](const SearchProgress& progress) {
      if (Clock::now() - told < kBetween) return;
      told = Clock::now();
      listener.send(event_text("progress", progress_json(progress)));
    };
    const Json result = in_new_folder(workplace, [&](const std::filesystem::path& folder) {
      request.plans = folder;
      const app::SweepReply reply = asked.run();
      Json json = asked.envelope(reply, to_json(reply));
      json["plans"] = folder.string();
      return json;
    });
    listener.send(event_text("result", result));
  } catch (...) {
    listener.send(fmt::format("event: error\ndata: {}\n\n", answer_of_error().body));
  }
}

}  // namespace weir
