# The Python package `weir`, where pybind11 and Python's headers are. The interpreter is the
# distribution's, for which tools/packages installs NumPy and the rest, whatever else is first in
# PATH; -DPython3_EXECUTABLE=... chooses another.
# SPDX-License-Identifier: Apache-2.0
find_program(Python3_EXECUTABLE NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(wanted_by_default OFF)
# A sanitizer's runtime cannot be loaded into an interpreter without it.
if(WEIR_EXECUTOR AND NOT WEIR_SANITIZE)
  find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
  find_package(pybind11 CONFIG QUIET)
  if(Python3_Development.Module_FOUND AND pybind11_FOUND)
    set(wanted_by_default ON)
  endif()
endif()
if(NOT DEFINED WEIR_PYTHON)  # not cached: pybind11 may come later
  set(WEIR_PYTHON ${wanted_by_default})
endif()
if(NOT WEIR_PYTHON)
  return()
endif()

find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)
file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/python/*.cpp)
# NO_EXTRAS: no link-time optimisation, the module glues.
pybind11_add_module(weir_python MODULE NO_EXTRAS ${python_sources})
target_link_libraries(weir_python PRIVATE weir_app)
weir_optimise_little(weir_python)
set(package ${CMAKE_BINARY_DIR}/python/weir)
set_target_properties(weir_python PROPERTIES OUTPUT_NAME _weir LIBRARY_OUTPUT_DIRECTORY ${package})

# The package is usable where it is built: links to its sources beside the extension.
file(GLOB package_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/python/weir/*.py)
list(APPEND package_files ${CMAKE_SOURCE_DIR}/tools/jobs/torch/torch_graph.py
  ${CMAKE_SOURCE_DIR}/tools/jobs/torch/torch_layers.py)
file(MAKE_DIRECTORY ${package})
foreach(file IN LISTS package_files)
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${package}/${name} SYMBOLIC)
endforeach()
# Its stubs, from the extension itself.
add_custom_command(TARGET weir_python POST_BUILD VERBATIM
  COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${Python3_EXECUTABLE}
    ${CMAKE_SOURCE_DIR}/tools/python/stubs.py ${CMAKE_BINARY_DIR}/python ${package})
