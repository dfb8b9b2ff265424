// Runs the cases of tools/reproduce, and writes their lines as JSON and CSV.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reproduce/reproduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/nearest.hpp"
#include "tools/reproduce/measured/reasons.hpp"

namespace weir::app {

namespace {

std::vector<ReproductionCase> chosen(const std::vector<std::string>& names) {
  const auto all = reproduction_cases();
  std::vector<ReproductionCase> cases;
  std::vector<std::string> known;
  for (const ReproductionCase& c : all) {
    known.emplace_back(c.name);
    // In the list's order, whatever the order asked for.
    if (names.empty() || std::ranges::find(names, c.name) != names.end()) cases.push_back(c);
  }
  // A misspelt name is an error, not an empty answer.
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end())
      throw UsageError(fmt::format("reproduce {}: expected {}{}", name, fmt::join(known, ", "),
                                   did_you_mean(name, known)));
  }
  return cases;
}

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string to_csv(const std::vector<CaseResult>& results) {
  std::string csv = "case,row,quantity,published,predicted,error,role\n";
  for (const CaseResult& result : results) {
    for (const ReproductionLine& line : result.lines) {
      csv += fmt::format("{},{},{},{},{},{},{}\n", result.name, quoted(line.row),
                         quoted(line.quantity), line.published, line.predicted, line.error(),
                         to_string(line.role));
    }
  }
  return csv;
}

}  // namespace

Fields fields(ReproduceRequest& r) {
  return {{"cases", &r.cases, "Cases (default: all)"},
          {"--published", &r.published,
           "Folder with the published tables (default: those compiled in from "
           "tools/examples/published)"},
          {"--csv", &r.csv, "The lines as CSV", {.writes = Writes::file}},
          {"--list", &r.list, "What cases there are"},
          {"--cross-validate", &r.cross_validate,
           "Forecast measured runs with their cluster and stack left out of what was learnt, and "
           "say which aims are reached"},
          {"--errors",
           &r.errors,
           "With --cross-validate: the table that intervals of built-in forecasts are made from",
           {.writes = Writes::file}}};
}

ReproduceResult reproduce(const ReproduceRequest& r, const Session& session) {
  ReproduceResult result;
  if (r.list) return result;
  if (r.errors && !r.cross_validate)
    throw UsageError("reproduce: --errors goes with --cross-validate");
  if (r.cross_validate) {
    // Every row is judged by all others: a selection would change the others.
    if (!r.cases.empty()) throw UsageError("reproduce: --cross-validate takes all cases");
    result.cross_validation = cross_validate({r.published}, session.part("forecasts"));
    const CrossValidation& whole = *result.cross_validation;
    if (r.csv) write_file_atomically(session.output(*r.csv), to_csv(whole));
    if (r.errors) write_file_atomically(session.output(*r.errors), to_csv(whole.errors));
    return result;
  }
  for (const ReproductionCase& c : chosen(r.cases)) {
    session.log(std::string(c.about));
    result.cases.push_back(c.run({r.published}));
    result.cases.back().name = c.name;
  }
  if (r.csv) write_file_atomically(session.output(*r.csv), to_csv(result.cases));
  return result;
}

namespace {

Json reason_of(const AimLine& line) {
  const std::string_view reason = known_reason(line);
  return reason.empty() ? Json() : Json(reason);
}

Json aims_json(const CrossValidation& whole) {
  Json aims = Json::array();
  for (const AimLine& line : whole.aims) {
    aims.push_back({{"what", line.what},
                    {"method", line.method},
                    {"statistic", line.statistic},
                    {"rows", line.rows},
                    {"figure", or_null(line.figure)},
                    {"aim", or_null(line.aim)},
                    {"at_least", line.at_least},
                    {"reached", or_null(line.reached())},
                    {"because", reason_of(line)}});
  }
  return aims;
}

Json groups_json(const CrossValidation& whole) {
  Json groups = Json::array();
  for (const GroupLine& line : whole.groups) {
    Json interval;
    if (line.interval) {
      interval = {{"nominal", line.interval->nominal}, {"half_width", line.interval->half_width},
                  {"rows", line.interval->rows},       {"clusters", line.interval->clusters},
                  {"stacks", line.interval->stacks},   {"coverage", line.coverage}};
    }
    groups.push_back({{"cluster", line.cluster},
                      {"stack", line.stack},
                      {"quantity", line.is_memory ? "memory" : "step"},
                      {"rows", line.rows},
                      {"level", line.level},
                      {"level_of_others", line.level_of_others},
                      {"median_abs_error", line.as_it_comes},
                      {"left_out_median_abs_error", line.left_out},
                      {"anchored_median_abs_error", line.anchored},
                      {"interval", interval}});
  }
  return groups;
}

Json sources_json(const CrossValidation& whole) {
  Json sources = Json::array();
  for (const SourceLine& line : whole.sources) {
    sources.push_back({{"source", line.source},
                       {"rows", line.rows},
                       {"forecast", line.forecast},
                       {"failed", line.failed},
                       {"unhealthy", line.unhealthy},
                       {"without", line.without}});
  }
  return sources;
}

Json off_json(const CrossValidation& whole) {
  Json off = Json::array();
  for (const JudgedLine& line : whole.lines) {
    if (!line.off_by_more_than_2x()) continue;
    off.push_back({{"source", line.run->source},
                   {"row", line.run->row},
                   {"quantity", line.quantity()},
                   {"published", line.published},
                   {"left_out", line.left_out}});
  }
  return off;
}

Json share_json(const Proportion& share) { return share.of > 0 ? Json(share.value()) : Json(); }

Json defaults_json(const CrossValidation& whole) {
  Json defaults = Json::array();
  for (const DefaultLine& line : whole.defaults) {
    // Of no rows there is no error: null and not 0.
    const auto of_rows = [&](double value) { return line.rows > 0 ? Json(value) : Json(); };
    const auto of_grids = [&](double value) { return line.grids > 0 ? Json(value) : Json(); };
    defaults.push_back({{"source", line.source},
                        {"rows", line.rows},
                        {"median_abs_error", of_rows(line.median)},
                        {"p95_abs_error", of_rows(line.p95)},
                        {"bias", of_rows(line.bias)},
                        {"grids", line.grids},
                        {"kendall_tau", of_grids(line.tau)},
                        {"regret", of_grids(line.regret)},
                        {"worst_regret", of_grids(line.worst_regret)},
                        {"failed", line.failed_called_fitting.of},
                        {"failed_called_fitting", share_json(line.failed_called_fitting)},
                        {"ran", line.ran_called_no.of},
                        {"ran_called_no", share_json(line.ran_called_no)},
                        {"coverage", share_json(line.covered)},
                        {"upper_over_lower", line.width > 0 ? Json(line.width) : Json()}});
  }
  return defaults;
}

Json factors_json(const CrossValidation& whole) {
  Json factors = Json::array();
  for (const FactorEffect& effect : whole.effects) {
    factors.push_back({{"factor", to_string(effect.factor)},
                       {"pairs", effect.pairs},
                       {"sources", effect.sources},
                       {"measured_ratio", effect.measured},
                       {"forecast_ratio", effect.forecast},
                       {"median_abs_error", effect.error},
                       {"apart", effect.apart},
                       {"agreeing", effect.agreeing}});
  }
  return factors;
}

Json to_json(const CrossValidation& whole) {
  return {{"by_default", defaults_json(whole)}, {"factors", factors_json(whole)},
          {"aims", aims_json(whole)},           {"groups", groups_json(whole)},
          {"sources", sources_json(whole)},     {"off_by_more_than_2x", off_json(whole)},
          {"crashes", whole.crashes},           {"notes", whole.notes}};
}

}  // namespace

Json to_json(const ReproduceResult& whole) {
  Json json{{"schema", "weir.reproduction/1"},
            {"cases", Json::array()},
            {"anomalies", Json::array()},
            {"summary", Json::array()},
            {"notes", Json::array()}};
  for (const CaseResult& result : whole.cases) {
    for (const ReproductionLine& line : result.lines) {
      json["cases"].push_back({{"case", result.name},
                               {"row", line.row},
                               {"quantity", line.quantity},
                               {"published", line.published},
                               {"predicted", line.predicted},
                               {"error", line.error()},
                               {"role", to_string(line.role)}});
    }
    for (const Anomaly& anomaly : result.anomalies) {
      json["anomalies"].push_back({{"case", result.name},
                                   {"row", anomaly.row},
                                   {"quantity", anomaly.quantity},
                                   {"published", anomaly.published},
                                   {"predicted", anomaly.predicted},
                                   {"reason", anomaly.reason}});
    }
    // Per case and role: calibrated rows are no forecasts.
    for (const ErrorSummary& s : summaries(result)) {
      json["summary"].push_back({{"case", result.name},
                                 {"role", to_string(s.role)},
                                 {"numbers", s.numbers},
                                 {"median_abs_error", s.median},
                                 {"mean_abs_error", s.mean},
                                 {"worst_abs_error", s.worst}});
    }
    for (const std::string& note : result.notes)
      json["notes"].push_back({{"case", result.name}, {"note", note}});
  }
  if (whole.cross_validation) json["cross_validation"] = to_json(*whole.cross_validation);
  return json;
}

std::string json_text(const ReproduceResult& whole) {
  const bool listed = whole.cases.empty() && !whole.cross_validation;
  return listed ? "" : to_json(whole).dump(2);
}

}  // namespace weir::app
