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
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/app/shared/ranges.hpp"
#include "tools/app/shared/session.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

// Where a field's value goes. A vector of whole numbers is written as 4, 1,2,4 or 1..8 on the
// command line, one of others as 0.5 or 0,0.5; Words are separated by commas there, while a vector
// of texts or files is a list of arguments.
using Target =
    std::variant<bool*, int*, std::optional<int>*, std::optional<std::int64_t>*, std::uint64_t*,
                 double*, std::optional<double>*, std::string*, std::filesystem::path*,
                 std::optional<std::filesystem::path>*, std::vector<int>*, std::vector<double>*,
                 Words*, std::vector<std::string>*, std::vector<std::filesystem::path>*,
                 PlanSource*, CostsSource*, ScheduleChoice*, std::vector<ScheduleChoice>*,
                 TraceSource*, std::vector<TraceSource>*>;

enum class Writes : std::uint8_t { nothing, file, folder };

struct FieldTraits {
  std::optional<Range> range;        // of a number, which must have one, and of each in a list
  std::vector<std::string> choices;  // of a text, and of each word
  bool required = false;
  bool model = false;  // of a file: a model's, which its folder or its name may stand for
  Writes writes = Writes::nothing;  // what the use case writes there
  std::optional<double> unsaid;     // of a number that may be left out behind its name: what it is
  // What else is written with a file, by that file's name: a picture's data. None: nothing.
  std::filesystem::path (*with_it)(std::filesystem::path file) = nullptr;
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

// Throws UsageError for a text that is none of the field's choices, where it has them.
void require_choices(const Field& field, const std::vector<std::string>& texts);

// The first field that is required and not there: a list of nothing is not there. None: nothing is
// missing. `given`: as Session has it.
[[nodiscard]] const Field* first_missing(const Fields& fields, const std::set<std::string>& given);

// Puts its file in place of each model that is named otherwise (model_file). Before files_read.
void find_models(const Fields& fields);

// What must hold before hours of work: each file and folder that the fields name to be written can
// be, is none of those that are read, and is written by one field alone; and no name that was given
// is empty. Throws UsageError or InputError.
void try_outputs(const Fields& fields, const Session& session);

void append(Fields& fields, Fields more);

template <class Request, class Result>
struct UseCase {
  const char* name;
  const char* summary;
  Result (*run)(const Request&, const Session&);
};

}  // namespace weir::app
