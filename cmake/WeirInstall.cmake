# What `cmake --install` and `cpack` carry: the command with its completions, manual pages and
# examples, and the planner's floors (all but the executor) as a library for find_package(weir). And
# the component `wheel`, which pyproject.toml alone asks for: the package with its stubs, and the
# command.
# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS weir COMPONENT command)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
# What the command's own documentation names: models, machines, stacks, layouts.
set(examples ${CMAKE_SOURCE_DIR}/tools/examples)
install(DIRECTORY ${examples}/clusters ${examples}/data ${examples}/layouts ${examples}/models
  ${examples}/stacks DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/examples COMPONENT command)

# The command writes the completions from its own tables of options.
set(completions ${CMAKE_BINARY_DIR}/completions)
file(MAKE_DIRECTORY ${completions})
set(completion_files)
foreach(pair bash:weir zsh:_weir fish:weir.fish)
  string(REGEX MATCH "^[a-z]+" shell ${pair})
  string(REGEX REPLACE "^[a-z]+:" "" file ${pair})
  add_custom_command(OUTPUT ${completions}/${shell}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}/${shell}
    COMMAND weir --completion ${shell} > ${completions}/${shell}/${file}
    DEPENDS weir VERBATIM)
  list(APPEND completion_files ${completions}/${shell}/${file})
endforeach()
add_custom_target(weir_completions ALL DEPENDS ${completion_files})
set(share ${CMAKE_INSTALL_DATADIR})
install(FILES ${completions}/bash/weir DESTINATION ${share}/bash-completion/completions
  COMPONENT command)
install(FILES ${completions}/zsh/_weir DESTINATION ${share}/zsh/site-functions COMPONENT command)
install(FILES ${completions}/fish/weir.fish DESTINATION ${share}/fish/vendor_completions.d
  COMPONENT command)

# And the manual pages from the same tables; none is left of a command that is gone.
set(manual ${CMAKE_BINARY_DIR}/man1)
add_custom_command(OUTPUT ${manual}/weir.1
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual}
  COMMAND weir --man-pages ${manual}
  DEPENDS weir VERBATIM)
add_custom_target(weir_manual ALL DEPENDS ${manual}/weir.1)
install(DIRECTORY ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT command)

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/weir)
foreach(library plan traces traces_kineto costmodel sim sim_layouts sim_recompute)
  set_target_properties(weir_${library} PROPERTIES EXPORT_NAME ${library})
  install(TARGETS weir_${library} EXPORT weir COMPONENT library
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${headers})
endforeach()
foreach(floor plan traces costmodel sim)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${floor} DESTINATION ${headers} COMPONENT library
    FILES_MATCHING PATTERN *.hpp)
endforeach()
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(EXPORT weir NAMESPACE weir:: DESTINATION ${config} FILE weir-targets.cmake
  COMPONENT library)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/weir-config.cmake.in
  ${CMAKE_BINARY_DIR}/weir-config.cmake INSTALL_DESTINATION ${config})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weir-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weir-config.cmake ${CMAKE_BINARY_DIR}/weir-config-version.cmake
  DESTINATION ${config} COMPONENT library)

if(SKBUILD AND WEIR_PYTHON)
  install(TARGETS weir_python LIBRARY DESTINATION weir COMPONENT wheel EXCLUDE_FROM_ALL)
  install(FILES ${package_files} DESTINATION weir COMPONENT wheel EXCLUDE_FROM_ALL)
  set(stubs ${CMAKE_BINARY_DIR}/python/weir)
  install(FILES ${stubs}/__init__.pyi ${stubs}/commands.pyi ${stubs}/py.typed
    DESTINATION weir COMPONENT wheel EXCLUDE_FROM_ALL)
  install(PROGRAMS $<TARGET_FILE:weir> DESTINATION ${SKBUILD_SCRIPTS_DIR}
    COMPONENT wheel EXCLUDE_FROM_ALL)
  install(DIRECTORY ${examples}/clusters ${examples}/data ${examples}/layouts ${examples}/models
    ${examples}/stacks DESTINATION ${SKBUILD_DATA_DIR}/share/weir/examples
    COMPONENT wheel EXCLUDE_FROM_ALL)
  install(DIRECTORY ${manual} DESTINATION ${SKBUILD_DATA_DIR}/share/man
    COMPONENT wheel EXCLUDE_FROM_ALL)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/notebooks DESTINATION ${SKBUILD_DATA_DIR}/share/weir
    COMPONENT wheel EXCLUDE_FROM_ALL FILES_MATCHING PATTERN *.ipynb)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${SKBUILD_DATA_DIR}/share/doc/weir
    COMPONENT wheel EXCLUDE_FROM_ALL FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN *.png)
endif()

set(CPACK_GENERATOR TGZ)  # `cpack -G DEB`: a package of Debian's kind
set(CPACK_PACKAGE_VENDOR weir)
set(CPACK_PACKAGE_CONTACT "The Weir maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Forecasts pipeline-parallel training and runs it")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_MONOLITHIC_INSTALL ON)  # one archive
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # by dpkg-shlibdeps of dpkg-dev, which comes with g++
# What find_package(weir) looks for, which the command does not need.
set(needed_to_link libboost-dev libeigen3-dev libfmt-dev libssl-dev libtbb-dev nlohmann-json3-dev
  zlib1g-dev)
list(JOIN needed_to_link ", " CPACK_DEBIAN_PACKAGE_SUGGESTS)
include(CPack)
