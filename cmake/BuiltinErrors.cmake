# The errors of built-in forecasts on measured runs, compiled in: an interval needs no file beside
# it, and no forecast of those runs.
# SPDX-License-Identifier: Apache-2.0
set(builtin_errors ${CMAKE_SOURCE_DIR}/tools/examples/measured/builtin_errors.csv)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${builtin_errors})
file(READ ${builtin_errors} BUILTIN_ERRORS)
set(BUILTIN_ERRORS_SOURCE ${CMAKE_BINARY_DIR}/builtin_errors.cpp)
file(CONFIGURE OUTPUT ${BUILTIN_ERRORS_SOURCE} @ONLY CONTENT [[
// Generated from tools/examples/measured/builtin_errors.csv by cmake/BuiltinErrors.cmake.
#include "costmodel/fit/builtin_interval.hpp"

namespace weir {

std::string_view shipped_group_errors() {
  return R"csv(@BUILTIN_ERRORS@)csv";
}

}  // namespace weir
]])
