// Costs that the user gives: uniform ones, and the CSV of stages (docs/formats.md).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/given_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr double kLongestMs = 1e9;

double parse_number(const std::string& text, const std::string& file, const std::string& where,
                    double most) {
  const auto value = whole_number<double>(text);
  if (!value || !(*value >= 0) || *value > most)
    throw InputError(
        file, where,
        fmt::format("\"{}\": expected a number from 0 to {}", text.substr(0, 40), most));
  return *value;
}

}  // namespace

CostTable uniform_table(const ScheduleShape& shape, const UniformTimes& times) {
  // A chunk has 1/v of its rank's layers, a segment its share of the tokens.
  const double share = static_cast<double>(shape.ranks) / shape.stages / shape.segments;
  CostTable table;
  StageCost cost;
  cost.f = cost.r = to_nanoseconds(times.f * share);
  cost.i = to_nanoseconds(times.i * share);
  cost.w = to_nanoseconds(times.w * share);
  // Of the rounded halves, so that B is I and W to the nanosecond.
  cost.b = cost.i + cost.w;
  const auto stages = static_cast<std::size_t>(shape.total_stages());
  table.stages.assign(stages, cost);
  for (std::int32_t rank = 0; rank < shape.shards(); ++rank) {
    StageCost& shard = table.stages[shape.shard(Rank{rank}).position()];
    shard = {};
    shard.f = to_nanoseconds(times.s.value_or(times.f / 2));
    shard.b = to_nanoseconds(times.t.value_or(times.f / 2));
  }
  table.forward_messages.assign(stages, {Nanoseconds(0), to_nanoseconds(times.latency)});
  table.backward_messages = table.forward_messages;
  return table;
}

namespace {

std::vector<std::string> checked_header(const std::string& line, const std::string& file) {
  constexpr const char* kColumns[] = {"stage", "f_ms", "i_ms",    "w_ms",
                                      "b_ms",  "r_ms", "send_ms", "latency_ms"};
  std::vector<std::string> header = split_cells(line);
  for (const std::string& column : header) {
    if (std::find(std::begin(kColumns), std::end(kColumns), column) == std::end(kColumns))
      throw InputError(file, "row 1", fmt::format("unknown column \"{}\"", column.substr(0, 40)));
    if (std::count(header.begin(), header.end(), column) > 1)
      throw InputError(file, "row 1", fmt::format("column {} is given twice", column));
  }
  for (int needed = 0; needed < 4; ++needed) {
    if (std::find(header.begin(), header.end(), kColumns[needed]) == header.end())
      throw InputError(file, "row 1", fmt::format("column {} is missing", kColumns[needed]));
  }
  return header;
}

// A row's numbers, milliseconds but for the stage.
using Row = std::map<std::string, double>;

void set_stage(const Row& given, std::size_t stage, CostTable& table) {
  const auto ns = [&](const char* key, Nanoseconds otherwise) {
    const auto found = given.find(key);
    return found == given.end() ? otherwise : to_nanoseconds(Seconds(found->second * 1e-3));
  };
  StageCost& cost = table.stages[stage];
  cost.f = ns("f_ms", {});
  cost.i = ns("i_ms", {});
  cost.w = ns("w_ms", {});
  // What is not given follows from what is: B is I and W, R is another F.
  cost.b = ns("b_ms", cost.i + cost.w);
  cost.r = ns("r_ms", cost.f);
  table.forward_messages[stage] = {ns("send_ms", Nanoseconds(0)), ns("latency_ms", Nanoseconds(0))};
}

}  // namespace

CostTable parse_times(const std::string& text, const std::string& file,
                      const ScheduleShape& shape) {
  std::istringstream in(without_byte_order_mark(text));
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = checked_header(line, file);
  const auto stages = static_cast<std::size_t>(shape.total_stages());
  CostTable table;
  table.stages.resize(stages);
  table.forward_messages.resize(stages);
  std::vector<bool> seen(stages, false);
  for (int row = 2; std::getline(in, line); ++row) {
    const std::vector<std::string> cells = split_cells(line);
    if (cells.empty() || (cells.size() == 1 && cells[0].empty())) continue;
    const std::string where = fmt::format("row {}", row);
    if (cells.size() != header.size())
      throw InputError(file, where,
                       fmt::format("expected {} cells, found {}", header.size(), cells.size()));
    Row given;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const double most = header[c] == "stage" ? static_cast<double>(stages) - 1 : kLongestMs;
      given[header[c]] =
          parse_number(cells[c], file, fmt::format("{}, column {}", where, header[c]), most);
    }
    if (given["stage"] != std::floor(given["stage"]))
      throw InputError(file, where, "expected a whole stage number");
    const auto stage = static_cast<std::size_t>(given["stage"]);
    if (seen[stage]) throw InputError(file, where, fmt::format("stage {} is given twice", stage));
    seen[stage] = true;
    set_stage(given, stage, table);
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    if (!seen[stage])
      throw InputError(file, "", fmt::format("stage {} of {} has no row", stage, stages));
  }
  table.backward_messages = table.forward_messages;
  return table;
}

}  // namespace weir
