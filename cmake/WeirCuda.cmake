# The CUDA language and the libraries of the CUDA executor. Included by the root, because a language
# must be enabled in the highest folder whose targets link it. Nothing here links libcuda: a binary
# must start on a machine without a driver and say so.
# SPDX-License-Identifier: Apache-2.0
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # "native" fails where there is no GPU. 75 has no bf16 arithmetic and is kept for fp32; 90 also as
  # PTX, for what comes.
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 90-virtual)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # else cudart and cudart_static are both linked
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no C++20 option for nvcc 13
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 12.5 REQUIRED)  # green contexts' streams
