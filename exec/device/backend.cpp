// The backends by name, and the one that a run asks for.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {

std::string to_string(BackendKind kind) {
  static constexpr Names<BackendKind, 3> kNames{{{BackendKind::cpu, "cpu"},
                                                 {BackendKind::cuda, "cuda"},
                                                 {BackendKind::synthetic, "synthetic"}}};
  return std::string(name_of(kNames, kind));
}

void Backend::logits(const LayerCall&, float*) {
  throw MissingComponent("logits are kept on the cpu backend only");
}

double Backend::sum_of_squares(std::span<const Tensor>, std::int64_t) {
  throw MissingComponent("this backend sums no squares: gradients are not clipped on it");
}

namespace {

[[noreturn]] void refuse_launch() {
  throw std::logic_error("a backend without a stream waits for its sums");
}

}  // namespace

void Backend::connect(TensorLinks&) {
  throw std::logic_error("a backend in the host's memory sums by its group");
}
std::int64_t Backend::squares_room(std::int64_t) const { return 0; }
void Backend::launch_squares(const SquaresCall&, Stream&) { refuse_launch(); }
void Backend::launch_factor(const FactorCall&) { refuse_launch(); }
void Backend::launch_sums(const OrderedSums&, Stream&) { refuse_launch(); }

// Some at a time: as many zeros beside a tensor as it has itself would be twice its memory.
void Backend::put_zeros(const Tensor& to) {
  static constexpr std::array<float, 16384> kZeros{};
  constexpr std::int64_t kAtOnce = sizeof(kZeros);
  for (std::int64_t done = 0; done < to.bytes; done += kAtOnce) {
    const std::int64_t part = std::min(kAtOnce, to.bytes - done);
    to_device({to.data + done, part}, kZeros.data(), part);
  }
}

void Backend::copy_rows(const RowsCopy& copy) {
  if (!in_host_memory()) throw MissingComponent("skips go directly on the cpu backend only");
  for (std::int64_t row = 0; row < copy.rows; ++row) {
    std::memcpy(copy.to.data + row * copy.to_row + copy.to_offset,
                copy.from.data + row * copy.from_row + copy.from_offset,
                static_cast<std::size_t>(copy.bytes));
  }
}

const BackendFactory& factory_of(BackendKind kind, const Backends& backends) {
  const auto factory = backends.find(kind);
  if (factory == backends.end())
    throw MissingComponent(fmt::format("this build has no {} backend", to_string(kind)));
  return factory->second;
}

}  // namespace weir
