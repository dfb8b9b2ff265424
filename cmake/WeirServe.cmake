# `weir serve`: the target weir_serve, where cpp-httplib and Landlock's header are (Debian:
# libcpp-httplib-dev, linux-libc-dev). The library must be used with the definitions that it was
# built with, which its CMake package or its pkg-config file has.
# SPDX-License-Identifier: Apache-2.0
set_property(CACHE WEIR_SERVE PROPERTY STRINGS AUTO ON OFF)
if(WEIR_SERVE)  # AUTO counts as true
  find_package(httplib QUIET CONFIG)
  set(httplib_target httplib::httplib)
  if(NOT TARGET httplib::httplib)
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
      pkg_check_modules(CPP_HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
    endif()
    set(httplib_target PkgConfig::CPP_HTTPLIB)
  endif()
  find_path(LANDLOCK_INCLUDE_DIR linux/landlock.h)
  if(TARGET ${httplib_target} AND LANDLOCK_INCLUDE_DIR)
    weir_floor(weir_serve FOLDER tools/serve LINK weir_app PRIVATE ${httplib_target})
    weir_page_parts(parts tools/serve/served_page.hpp weir ServedParts served_parts
      BODY body.html STYLE style.css SCRIPT draw.js serve.js)
    target_sources(weir_serve PRIVATE ${parts})
    weir_optimise_little(weir_serve)
  elseif(WEIR_SERVE STREQUAL "ON")
    message(FATAL_ERROR "WEIR_SERVE: no cpp-httplib (Debian: libcpp-httplib-dev, pkg-config) or no "
      "linux/landlock.h (linux-libc-dev)")
  endif()
endif()
