// What a request is answered, and an error and an event as the page reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plan/text/ending.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

struct Answer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

// weir.error/1, its message a line: a new line in a name that it quotes is shown as \x0a.
[[nodiscard]] Json error_json(const Ending& ending);

// An exception as an answer. Precondition: within a catch block.
[[nodiscard]] Answer answer_of_error();

// One event of a stream: "event: NAME", and its data on one line.
[[nodiscard]] std::string event_text(std::string_view name, const Json& data);

}  // namespace weir
