// Sums of times, and how they meet what the host needs.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/kernel_sum.hpp"

#include <algorithm>

namespace weir {
namespace {

// A host that runs ahead is waited for where it is slower; one that waits for each kernel, always.
Seconds launched(Seconds device, Seconds host, bool blocking) {
  return blocking ? device + host : std::max(device, host);
}

}  // namespace

KernelSum& KernelSum::matmul(const MatmulShape& shape, ProductForm form) {
  sum_ += matmul_time(shape, device_, dtype_, form);
  count(1);
  return *this;
}

KernelSum& KernelSum::fused(const FusedCore& core) {
  sum_ += fused_core_time(core, device_, dtype_);
  count(1);
  return *this;
}

KernelSum& KernelSum::stream(std::int64_t numbers) {
  sum_ += stream_time(Bytes(numbers * bytes_per_element(dtype_)), device_);
  count(1);
  return *this;
}

KernelSum& KernelSum::move(double bytes, int kernels) {
  sum_ += stream_time(Bytes(static_cast<std::int64_t>(bytes)), device_);
  count(kernels);
  return *this;
}

KernelSum& KernelSum::steps(double bytes, int kernels) {
  const KernelModel& model = *device_.kernels;
  const Seconds moving = stream_time(Bytes(static_cast<std::int64_t>(bytes)), device_);
  // Each starts anew, and none is shorter than a smallest kernel.
  sum_ += std::max(moving + model.start * (kernels - 1.0), model.floor * (1.0 * kernels));
  count(kernels);
  return *this;
}

KernelSum& KernelSum::small(double kernels) {
  sum_ += device_.kernels->floor * kernels;
  count(kernels);
  return *this;
}

Seconds KernelSum::time() const { return launched(sum_, launch_ * count_, blocking_); }

Seconds launched_time(Seconds device, double launches, const Device& device_kind,
                      const StackTime& stack) {
  const Seconds host = stack.launch.value_or(device_kind.kernels->launch) * launches;
  return launched(device, host, stack.blocking_launches);
}

}  // namespace weir
