# The tables of tools/examples/published and tools/examples/measured, the machines of
# tools/examples/clusters that they were measured on and the software of tools/examples/stacks,
# compiled in, so that `weir reproduce` needs no file beside it and both have names.
# SPDX-License-Identifier: Apache-2.0
file(GLOB published_tables CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/tools/examples/published/*.csv
  ${CMAKE_SOURCE_DIR}/tools/examples/measured/*.csv
  ${CMAKE_SOURCE_DIR}/tools/examples/clusters/*.json
  ${CMAKE_SOURCE_DIR}/tools/examples/stacks/*.json)
list(FILTER published_tables EXCLUDE REGEX "builtin_errors.csv$")  # compiled in by costmodel
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${published_tables})
set(PUBLISHED_ENTRIES "")
foreach(table IN LISTS published_tables)
  get_filename_component(name ${table} NAME)
  file(READ ${table} text)
  string(APPEND PUBLISHED_ENTRIES "    {\"${name}\", R\"csv(${text})csv\"},\n")
endforeach()
set(PUBLISHED_SOURCE ${CMAKE_BINARY_DIR}/published_tables.cpp)
file(CONFIGURE OUTPUT ${PUBLISHED_SOURCE} @ONLY CONTENT [[
// Generated from tools/examples by cmake/PublishedTables.cmake.
#include "tools/reproduce/published.hpp"

namespace weir {

const std::map<std::string, std::string>& compiled_tables() {
  static const std::map<std::string, std::string> kTables{
@PUBLISHED_ENTRIES@  };
  return kTables;
}

}  // namespace weir
]])
