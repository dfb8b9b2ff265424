// A use case's request as a table of fields. The command makes options of the table
// (tools/weir/command_line), the Python module keyword arguments (tools/python/use_cases): both say
// and check the same, and neither knows a request.
//
// To add a use case NAME:
//   1. A header here: `struct NameRequest` of plain members with defaults, `struct NameResult`,
//      `NameResult name(const NameRequest&, const Session&)`, `fields(NameRequest&)`, and the
//      constant `kName` (a UseCase) with its name and summary. nlohmann/json_fwd.hpp at most.
//   2. `to_json(const NameResult&)`: the JSON as a value, built, never parsed from text. Where a
//      result may be bad news that is shown before the end is reported (a forecast that does not
//      fit), `require_success(const NameResult&)` throws it.
//   3. The source beside it does it: it prints nothing; what people should know goes to
//      Session::note, how far it is to Session::progress, and every file it writes is named by
//      Session::output, which keeps what was read from being written over.
//   4. A line in tools/weir/commands.cpp with what people read of the result, a line in
//      tools/python/commands.cpp, and a case in tests/python/commands_test.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/app/session.hpp"
#include "tools/app/source.hpp"

namespace weir::app {

// Where a field's value goes. A vector of numbers is written as 4, 1,2,4 or 1..8 on the command
// line; Words are separated by commas there, while a vector of texts or files is a list of
// arguments.
using Target =
    std::variant<bool*, int*, std::optional<int>*, std::optional<std::int64_t>*, std::uint64_t*,
                 double*, std::string*, std::filesystem::path*,
                 std::optional<std::filesystem::path>*, std::vector<int>*, Words*,
                 std::vector<std::string>*, std::vector<std::filesystem::path>*, PlanSource*,
                 CostsSource*, ScheduleChoice*, TraceSource*, std::vector<TraceSource>*>;

struct FieldTraits {
  std::optional<std::pair<double, double>> range;  // inclusive; of numbers, and of each in a list
  std::vector<std::string> choices;                // of a text
  bool required = false;
  bool writes = false;  // a file or folder that the use case writes
};

struct Field {
  std::string names;  // "plan" is positional; "-K,--pp" and "--svg,--pdf" are options
  Target target;
  std::string help;
  FieldTraits traits = {};
};
using Fields = std::vector<Field>;

// The long names of a field without dashes: {"svg", "pdf"}; what messages call it is the first.
[[nodiscard]] std::vector<std::string> long_names(const Field& field);

// The files that the filled-in fields name to be read: those of sources too, where they are files.
[[nodiscard]] std::vector<std::filesystem::path> files_read(const Fields& fields);

void append(Fields& fields, Fields more);

inline constexpr std::pair<double, double> kPositive{1, 1 << 20};

template <class Request, class Result>
struct UseCase {
  const char* name;
  const char* summary;
  Result (*run)(const Request&, const Session&);
};

}  // namespace weir::app
