// `weir reproduce`: published numbers beside Weir's.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/reproduce/reproduction.hpp"
#include "tools/weir/commands.hpp"

namespace weir {
namespace {

struct ReproduceOptions {
  std::vector<std::string> cases;
  std::optional<std::filesystem::path> published, csv;
  bool list = false;
};

std::vector<CaseResult> run_cases(const ReproduceOptions& o, const GlobalOptions& global) {
  const auto all = reproduction_cases();
  for (const std::string& name : o.cases) {
    if (std::none_of(all.begin(), all.end(),
                     [&](const ReproductionCase& c) { return c.name == name; })) {
      std::string known;
      for (const ReproductionCase& c : all)
        known += (known.empty() ? "" : ", ") + std::string(c.name);
      throw UsageError(fmt::format("reproduce {}: expected {}", name, known));
    }
  }
  std::vector<CaseResult> results;
  for (const ReproductionCase& c : all) {
    if (!o.cases.empty() && std::find(o.cases.begin(), o.cases.end(), c.name) == o.cases.end())
      continue;
    if (!global.quiet) fmt::print(stderr, "{}\n", c.about);
    results.push_back(c.run({o.published}));
    results.back().name = c.name;
  }
  return results;
}

nlohmann::ordered_json to_json(const std::vector<CaseResult>& results) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "weir.reproduction/1"},
            {"cases", Json::array()},
            {"anomalies", Json::array()},
            {"summary", Json::array()},
            {"notes", Json::array()}};
  for (const CaseResult& result : results) {
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

void print_case(const CaseResult& result) {
  std::size_t row = 0, quantity = 0;
  for (const ReproductionLine& line : result.lines) {
    row = std::max(row, line.row.size());
    quantity = std::max(quantity, line.quantity.size());
  }
  for (const ReproductionLine& line : result.lines) {
    fmt::print("{}  {:<{}}  {:<{}}  {:>11.5g}  {:>11.5g}  {:>+6.1f} %  {}\n", result.name, line.row,
               row, line.quantity, quantity, line.published, line.predicted, line.error() * 100,
               to_string(line.role));
  }
  for (const Anomaly& a : result.anomalies) {
    fmt::print("{}  {}: {}: published {:.5g}, predicted {:.5g}: anomaly: {}\n", result.name, a.row,
               a.quantity, a.published, a.predicted, a.reason);
  }
  for (const std::string& note : result.notes) fmt::print("{}: {}\n", result.name, note);
  fmt::print("\n");
}

void print_summaries(const std::vector<CaseResult>& results) {
  fmt::print("{:<22} {:<10} {:>7} {:>8} {:>8} {:>8}\n", "case", "role", "numbers", "median", "mean",
             "worst");
  for (const CaseResult& result : results) {
    for (const ErrorSummary& s : summaries(result)) {
      fmt::print("{:<22} {:<10} {:>7} {:>6.2f} % {:>6.2f} % {:>6.2f} %\n", result.name,
                 to_string(s.role), s.numbers, s.median * 100, s.mean * 100, s.worst * 100);
    }
  }
}

}  // namespace

void add_reproduce_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand(
      "reproduce", "Published tables: published, predicted and error side by side");
  auto o = std::make_shared<ReproduceOptions>();
  command->add_option("cases", o->cases, "Cases (default: all)");
  command->add_option("--published", o->published,
                      "Folder with the published tables (default: those compiled in from "
                      "tools/examples/published)");
  command->add_option("--csv", o->csv, "The lines as CSV");
  command->add_flag("--list", o->list, "What cases there are");
  command->callback([o, &global] {
    if (o->list) {
      for (const ReproductionCase& c : reproduction_cases())
        fmt::print("{:<22} {}\n", c.name, c.about);
      return;
    }
    const std::vector<CaseResult> results = run_cases(*o, global);
    if (o->csv) write_file_atomically(*o->csv, to_csv(results));
    if (global.json) {
      fmt::print("{}\n", to_json(results).dump(2));
      return;
    }
    for (const CaseResult& result : results) print_case(result);
    print_summaries(results);
  });
}

}  // namespace weir
