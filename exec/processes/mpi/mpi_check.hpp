// The one check of MPI calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include "plan/words/error.hpp"

namespace weir::mpi {

// Throws RunFailed with the call and MPI's own words. Errors are returned, not fatal: ByteTransport
// sets the handler.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RunFailed(fmt::format("{}: {}", call, text));
}

}  // namespace weir::mpi

#define WEIR_MPI_CHECK(call) ::weir::mpi::check((call), #call)
