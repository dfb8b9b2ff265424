# Ranks as processes: one test program, started by mpirun in K processes. Where there is no MPI its
# tests are there and skip with the reason.
# SPDX-License-Identifier: Apache-2.0
if(NOT WEIR_EXECUTOR)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(processes_folder ${CMAKE_CURRENT_SOURCE_DIR}/exec_processes)
add_test(NAME exec_processes/launcher
  COMMAND ${Python3_EXECUTABLE} ${processes_folder}/launcher_test.py $<TARGET_FILE:weir>)

set(mpi_missing "")
if(NOT TARGET weir_exec_mpi)
  set(mpi_missing "this build has no MPI")
elseif(NOT MPIEXEC_EXECUTABLE)
  set(mpi_missing "no mpirun was found")
endif()
if(mpi_missing)
  add_test(NAME mpi/processes COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${mpi_missing}")
  set_tests_properties(mpi/processes PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:")
  return()
endif()

file(GLOB processes_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/exec_processes/*.cpp)
list(FILTER processes_sources EXCLUDE REGEX stop_at)  # a library of its own, below
add_executable(exec_processes_tests ${processes_sources})
weir_include_root(exec_processes_tests PRIVATE tests)
target_compile_definitions(exec_processes_tests PRIVATE WEIR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(exec_processes_tests PRIVATE
  weir_sim weir_exec_threads weir_exec_cpu_layout weir_exec_mpi GTest::gtest)

# Open MPI refuses root and more ranks than cores unless told, looks for ssh, and in a container may
# not read another process's memory. Its libraries leak at exit.
set(mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_plm_rsh_agent=
  OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=self,vader
  OMPI_MCA_btl_vader_single_copy_mechanism=none ASAN_OPTIONS=detect_leaks=0)
# Processes that await each other beside as many again that compute: two tests' room.
foreach(k RANGE 1 4)
  add_test(NAME mpi/processes_${k}
    COMMAND ${MPIEXEC_EXECUTABLE} -n ${k} $<TARGET_FILE:exec_processes_tests>)
  set_tests_properties(mpi/processes_${k} PROPERTIES
    PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${mpi_environment}")
endforeach()
add_test(NAME mpi/command
  COMMAND ${Python3_EXECUTABLE} ${processes_folder}/command_test.py
    $<TARGET_FILE:weir> ${MPIEXEC_EXECUTABLE})
set_tests_properties(mpi/command PROPERTIES
  PROCESSORS 2 TIMEOUT 300 ENVIRONMENT "${mpi_environment}")

if(WEIR_SANITIZE)  # a sanitizer's own library wants to be the first
  return()
endif()
# A process that stands still in a collective of the test's choice: MPI's calls pass this library.
add_library(stop_at MODULE ${processes_folder}/stop_at.cpp)
target_link_libraries(stop_at PRIVATE MPI::MPI_CXX)
add_test(NAME mpi/patience
  COMMAND ${Python3_EXECUTABLE} ${processes_folder}/patience_test.py
    $<TARGET_FILE:weir> ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:stop_at> --some)
add_test(NAME mpi/patience_all
  COMMAND ${Python3_EXECUTABLE} ${processes_folder}/patience_test.py
    $<TARGET_FILE:weir> ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:stop_at>)
set_tests_properties(mpi/patience mpi/patience_all PROPERTIES
  RUN_SERIAL ON TIMEOUT 900 ENVIRONMENT "${mpi_environment}")
set_tests_properties(mpi/patience_all PROPERTIES LABELS long)
