// What help says beside the options: lines to copy, topics, and the groups that options stand in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

// Lines to copy of a sub-command, and what each does.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> examples_for(
    std::string_view command);
// "Examples:" and the lines of that sub-command.
[[nodiscard]] std::string examples_of(std::string_view command);

// What the command's exit codes mean (tools/app/shared/exit_code).
[[nodiscard]] std::string exit_codes_text();

// Of "files", "exit-codes", "schedules" and "clusters"; nullopt for any other word.
[[nodiscard]] std::optional<std::string> help_on(std::string_view topic);
// Those words behind `commands`.
[[nodiscard]] std::vector<std::string> with_topics(std::vector<std::string> commands);

// The heading under which an option of this long name stands, whatever command has it; what has
// none of its own is among the command's "Options".
[[nodiscard]] std::string option_group(std::string_view long_name);

}  // namespace weir
