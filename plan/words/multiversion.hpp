// Plain loops compiled once for each instruction set and chosen at run time, never by
// -march=native, so that binaries can be carried (GCC's function multiversioning). Other machines
// take the default version, and so do builds with sanitizers, which are not yet there when the
// choice is made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEIR_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEIR_MULTIVERSION
#endif
