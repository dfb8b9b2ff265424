// Costs of a model's layers as this machine has them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/profile/profile.hpp"

#include <nlohmann/json.hpp>

#include "tools/app/machine/host.hpp"
#include "tools/app/profile/profiling.hpp"

namespace weir::app {

Fields fields(ProfileRequest& r) {
  Fields all = weir::fields(r.plan);
  append(all,
         {{"--backend", &r.backend, "cpu or cuda"},
          {"-K,--pp",
           &r.devices,
           "Devices at work at once: cores, or equal shares of the GPUs (default: all cores, "
           "2 shares)",
           {.range = kDevicesHere}},
          {"-b,--micro-batch-size", &r.micro_batch_sizes, "Sizes to measure", {.range = kPositive}},
          {"-o,--output", &r.output, "Costs file", {.writes = Writes::file}},
          seed_field(r.seed)});
  append(all, fields(r.quiet));
  return all;
}

ProfileResult profile(const ProfileRequest& r, const Session& session) {
  const Model model = load_model(r.plan);
  const Plan plan = base_plan(r.plan, r.seed, model, session);
  const BackendKind backend = parse_measuring_backend(r.backend);
  // Before the first measurement, and after all that may be refused.
  wait_for_quiet(r.quiet, session);
  ProfileResult result{profile_machine(model, plan,
                                       {.backend = backend,
                                        .micro_batch_sizes = r.micro_batch_sizes,
                                        .devices = r.devices.value_or(0),
                                        .progress = session.part("profile")})};
  // It is said here, where it can still be measured again.
  note_disturbance(*result.costs.disturbance, "forecasts by this profile inherit it", session);
  if (r.output) save_costs(result.costs, session.output(*r.output));
  return result;
}

nlohmann::ordered_json to_json(const ProfileResult& result) { return weir::to_json(result.costs); }

}  // namespace weir::app
