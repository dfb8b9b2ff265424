// CUPTI where this build has its headers, a reason where it has not.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cupti/kernel_recording.hpp"

#ifdef WEIR_HAS_CUPTI
#include "exec/cuda/cupti/cupti_api.hpp"
#include "exec/cuda/cupti/cupti_watch.hpp"
#else
#include "plan/words/error.hpp"
#endif

namespace weir {

#ifdef WEIR_HAS_CUPTI

std::unique_ptr<KernelWatch> make_kernel_watch() {
  return std::make_unique<CuptiWatch>(require_cupti(cupti_libraries()));
}

CudaFact kernel_recording_fact() {
  const CuptiLookup cupti = find_cupti(cupti_libraries());
  return {"CUPTI", cupti.api.has_value(), cupti.why};
}

#else

std::unique_ptr<KernelWatch> make_kernel_watch() {
  throw MissingComponent("recording kernels needs CUPTI: not in this build");
}

CudaFact kernel_recording_fact() { return {"CUPTI", false, "not in this build"}; }

#endif

}  // namespace weir
