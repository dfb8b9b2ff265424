// A disturbance as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "traces/disturbance_json.hpp"

namespace weir {

nlohmann::ordered_json to_json(const Disturbance& d) {
  return format::written(d, format::kDisturbance);
}

Disturbance parse_disturbance(const nlohmann::ordered_json& json, const std::string& file,
                              const std::string& key) {
  JsonObject object(json, file, key);
  return format::read(object, format::kDisturbance);
}

}  // namespace weir
