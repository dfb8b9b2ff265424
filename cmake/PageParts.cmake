# The scripts, style and body of `weir page` (tools/app/page) compiled in.
# SPDX-License-Identifier: Apache-2.0
set(page_folder ${CMAKE_SOURCE_DIR}/tools/app/page)
set(PAGE_BODY_FILES body.html)
set(PAGE_STYLE_FILES style.css)
set(PAGE_ENGINE_FILES orders.js reader.js engine.js plan.js)
set(PAGE_VIEW_FILES painter.js measured.js view.js)
foreach(part BODY STYLE ENGINE VIEW)
  set(PAGE_${part} "")
  foreach(file ${PAGE_${part}_FILES})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_folder}/${file})
    file(READ ${page_folder}/${file} bytes HEX)
    string(APPEND PAGE_${part} "${bytes}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," PAGE_${part} "${PAGE_${part}}")
endforeach()
set(PAGE_PARTS_SOURCE ${CMAKE_BINARY_DIR}/page_parts.cpp)
file(CONFIGURE OUTPUT ${PAGE_PARTS_SOURCE} @ONLY CONTENT [[
// Generated from tools/app/page by cmake/PageParts.cmake.
#include "tools/app/page/page_parts.hpp"

namespace weir::app {

PageParts page_parts() {
  static constexpr char kBody[] = {@PAGE_BODY@ 0}, kStyle[] = {@PAGE_STYLE@ 0};
  static constexpr char kEngine[] = {@PAGE_ENGINE@ 0}, kView[] = {@PAGE_VIEW@ 0};
  return {kBody, kStyle, kEngine, kView};
}

}  // namespace weir::app
]])
