# NCCL, which CMake's toolkit module does not know: the target NCCL::NCCL where its header is found.
# The library is looked up while the program runs (exec/nccl/nccl_library).
# SPDX-License-Identifier: Apache-2.0
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
if(NCCL_INCLUDE_DIR)
  add_library(NCCL::NCCL INTERFACE IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
elseif(NOT WEIR_NCCL STREQUAL "AUTO")
  message(FATAL_ERROR "WEIR_NCCL=${WEIR_NCCL}: no nccl.h; set NCCL_ROOT")
endif()
