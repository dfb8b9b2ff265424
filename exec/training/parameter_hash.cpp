// SHA-256 of the parameters in layer order.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/parameter_hash.hpp"

#include <span>

#include "exec/training/gradient_copies.hpp"
#include "plan/text/sha256.hpp"

namespace weir {

void visit_hashed_parameters(
    const ResolvedPlan& loaded,
    const std::function<void(Stage stage, std::size_t parameter, std::int64_t elements)>& visit) {
  const auto stages = stage_parameters(loaded);
  for (std::int32_t stage = 0; stage < loaded.schedule.shape.stages; ++stage) {
    const auto& parameters = stages[static_cast<std::size_t>(stage)];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // Layers ascend with stages: the first use of a weight comes before its others.
      if (parameters[i].id != parameters[i].weight) continue;
      visit(Stage{stage}, i, parameters[i].description.elements());
    }
  }
}

std::string hash_parameters(const ResolvedPlan& loaded,
                            const std::function<void(Stage stage, std::size_t parameter,
                                                     std::vector<float>& values)>& read) {
  Sha256 digest;
  std::vector<float> values;
  visit_hashed_parameters(loaded, [&](Stage stage, std::size_t parameter, std::int64_t elements) {
    values.resize(static_cast<std::size_t>(elements));
    read(stage, parameter, values);
    digest.update(std::as_bytes(std::span(values)));
  });
  return digest.hex();
}

}  // namespace weir
