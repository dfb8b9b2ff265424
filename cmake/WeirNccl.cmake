# NCCL, which CMake's toolkit module does not know: the target NCCL::NCCL where header and library
# are found.
# SPDX-License-Identifier: Apache-2.0
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl
  HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES
    IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
elseif(NOT WEIR_NCCL STREQUAL "AUTO")
  message(FATAL_ERROR "WEIR_NCCL=${WEIR_NCCL}: no nccl.h or libnccl; set NCCL_ROOT")
endif()
