// `weir layout` as its tests ask it: a JSON answer that is there, and the example files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/commands/command.hpp"

namespace weir {

class LayoutCommand : public InFolder {
 protected:
  inline static const std::string kLayouts = WEIR_SOURCE_DIR "/tools/examples/layouts/";
  inline static const std::string kModels = WEIR_SOURCE_DIR "/tools/examples/models/";

  nlohmann::json of(const std::string& arguments) {
    const CommandResult result = shell(WEIR_COMMAND " -q --json layout " + arguments);
    EXPECT_EQ(result.code, 0) << result.out;
    return nlohmann::json::parse(result.out);
  }
};

}  // namespace weir
