// What the page asks, answered by the use cases that the commands have: no HTTP here. A body is a
// JSON object of a command's options by their long names; an answer is {"command", "result",
// "notes"}, where `result` is what the command prints with --json, and what it says on stderr are
// the notes. An error is the command's weir.error/1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tools/serve/answer.hpp"
#include "tools/serve/workplace.hpp"

namespace weir {

// Of POST /api/NAME: job, file, simulate, explain, calibrate, page, changes, stop.
[[nodiscard]] Answer answer(Workplace& workplace, std::string_view name, const std::string& body);

// A search: `send` is given its events (progress, then result or error); it ends where nobody
// listens any more. Several threads ask that.
struct Listener {
  std::function<void(std::string event)> send;
  std::function<bool()> listens;
};
void search(Workplace& workplace, const std::string& body, const Listener& listener);

}  // namespace weir
