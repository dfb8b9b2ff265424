// How an end is told: the command's line and exit code, and HTTP's status of it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/answer.hpp"

#include <fmt/format.h>

#include <exception>

#include "plan/text/quote.hpp"
#include "tools/app/shared/exit_code.hpp"
#include "tools/serve/workplace.hpp"

namespace weir {
namespace {

int status_of(EndKind kind) {
  switch (kind) {
    case EndKind::usage:
    case EndKind::bad_input:
      return 400;
    case EndKind::no_plan:
      return 422;
    case EndKind::missing:
      return 501;
    default:
      return 500;
  }
}

}  // namespace

Json error_json(const Ending& ending) {
  return {{"schema", "weir.error/1"},
          {"message", in_one_line(ending.line)},
          {"exit_code", exit_code(ending.kind)}};
}

Answer answer_of_error() {
  try {
    throw;
  } catch (const Busy& busy) {
    return {503, "application/json", error_json({EndKind::failed, busy.what()}).dump()};
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    return {status_of(ending.kind), "application/json",
            error_json(ending).dump(-1, ' ', false, Json::error_handler_t::replace)};
  }
}

std::string event_text(std::string_view name, const Json& data) {
  // JSON has no line break outside its texts, and within them it is written as \n.
  return fmt::format("event: {}\ndata: {}\n\n", name,
                     data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace weir
