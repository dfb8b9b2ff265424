// Runs the cases of tools/reproduce, and writes their lines as JSON and CSV.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reproduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {

using Json = nlohmann::ordered_json;

namespace {

std::vector<ReproductionCase> chosen(const std::vector<std::string>& names) {
  const auto all = reproduction_cases();
  std::vector<ReproductionCase> cases;
  std::vector<std::string_view> known;
  for (const ReproductionCase& c : all) {
    known.push_back(c.name);
    if (names.empty() || std::ranges::find(names, c.name) != names.end()) cases.push_back(c);
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end())
      throw UsageError(fmt::format("reproduce {}: expected {}", name, fmt::join(known, ", ")));
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
          {"--csv", &r.csv, "The lines as CSV", {.writes = true}},
          {"--list", &r.list, "What cases there are"}};
}

ReproduceResult reproduce(const ReproduceRequest& r, const Session& session) {
  ReproduceResult result;
  if (r.list) return result;
  for (const ReproductionCase& c : chosen(r.cases)) {
    session.log(std::string(c.about));
    result.cases.push_back(c.run({r.published}));
    result.cases.back().name = c.name;
  }
  if (r.csv) write_file_atomically(session.output(*r.csv), to_csv(result.cases));
  return result;
}

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
  return json;
}

std::string json_text(const ReproduceResult& whole) {
  return whole.cases.empty() ? "" : to_json(whole).dump(2);
}

}  // namespace weir::app
