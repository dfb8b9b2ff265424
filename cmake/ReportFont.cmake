# tools/report/Roboto-ASCII.ttf compiled in, so that a PDF has its font in itself and is the same on
# every machine.
# SPDX-License-Identifier: Apache-2.0
set(report_font ${CMAKE_SOURCE_DIR}/tools/report/Roboto-ASCII.ttf)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${report_font})
file(READ ${report_font} REPORT_FONT HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," REPORT_FONT "${REPORT_FONT}")
set(REPORT_FONT_SOURCE ${CMAKE_BINARY_DIR}/report_font.cpp)
file(CONFIGURE OUTPUT ${REPORT_FONT_SOURCE} @ONLY CONTENT [[
// Generated from tools/report/Roboto-ASCII.ttf by cmake/ReportFont.cmake.
#include "tools/report/font.hpp"

namespace weir {

std::span<const unsigned char> font_file() {
  static constexpr unsigned char kFont[] = {@REPORT_FONT@};
  return kFont;
}

}  // namespace weir
]])
