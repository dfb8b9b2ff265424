// Number formats by backend.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/formats.hpp"

namespace weir {

std::optional<std::string_view> formats_instead_of(Dtype dtype, BackendKind backend) {
  switch (backend) {
    case BackendKind::cpu:
      if (dtype != Dtype::fp32) return "fp32";
      return std::nullopt;
    case BackendKind::cuda:
      if (dtype == Dtype::fp16) return "fp32, tf32 or bf16";
      return std::nullopt;
    case BackendKind::synthetic:  // which waits, and computes nothing
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace weir
