// Each rule's own numbers, then those that all have.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/optimizer_json.hpp"

#include <string>

namespace weir {
namespace {

constexpr std::int64_t kMostIterations = std::int64_t{1} << 40;

// Of keys that may be left out: the value that says nothing is refused.
void parse_clipping_and_rate(JsonObject& object, Optimizer& o) {
  if (object.has("clip_norm")) {
    o.clip_norm = object.number("clip_norm", 0, 1e9);
    if (o.clip_norm == 0) object.fail("clip_norm", "expected above 0 (left out where it is 0)");
  }
  if (object.has("lr_warmup_iters"))
    o.rate.warmup_iters = object.integer("lr_warmup_iters", 1, kMostIterations);
  if (!object.has("lr_decay_style")) return;
  const auto style = parse_decay_style(object.text("lr_decay_style"));
  if (!style || *style == DecayStyle::constant)
    object.fail("lr_decay_style", "expected linear or cosine (left out where it is constant)");
  o.rate.style = *style;
  o.rate.decay_iters = object.integer("lr_decay_iters", 1, kMostIterations);
  o.rate.min_lr = object.number("min_lr", 0, 1e6);
}

}  // namespace

Json optimizer_json(const Optimizer& o) {
  Json json{{"kind", to_string(o.kind)}, {"learning_rate", o.learning_rate}};
  if (o.kind == OptimizerKind::sgd) {
    json["momentum"] = o.momentum;
    if (o.nesterov) json["nesterov"] = true;
  } else if (o.kind == OptimizerKind::rmsprop) {
    json["alpha"] = o.alpha;
    json["momentum"] = o.momentum;
    json["epsilon"] = o.epsilon;
  } else {
    json["beta1"] = o.beta1;
    json["beta2"] = o.beta2;
    json["epsilon"] = o.epsilon;
  }
  json["weight_decay"] = o.weight_decay;
  if (o.clip_norm > 0) json["clip_norm"] = o.clip_norm;
  if (o.rate.warmup_iters > 0) json["lr_warmup_iters"] = o.rate.warmup_iters;
  if (o.rate.style != DecayStyle::constant) {
    json["lr_decay_style"] = to_string(o.rate.style);
    json["lr_decay_iters"] = o.rate.decay_iters;
    json["min_lr"] = o.rate.min_lr;
  }
  return json;
}

Optimizer parse_optimizer(JsonObject object) {
  Optimizer o;
  const auto kind = parse_optimizer_kind(object.text("kind"));
  if (!kind) object.fail("kind", "expected sgd, rmsprop, adam or adamw");
  o.kind = *kind;
  o.learning_rate = object.number("learning_rate", 0, 1e6);
  switch (o.kind) {
    case OptimizerKind::sgd:
      o.momentum = object.number("momentum", 0, 1);
      o.nesterov = object.has("nesterov") && object.boolean("nesterov");
      break;
    case OptimizerKind::rmsprop:
      o.alpha = object.number("alpha", 0, 1);
      o.momentum = object.number("momentum", 0, 1);
      o.epsilon = object.number("epsilon", 0, 1);
      break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      o.beta1 = object.number("beta1", 0, 1);
      o.beta2 = object.number("beta2", 0, 1);
      o.epsilon = object.number("epsilon", 0, 1);
      break;
  }
  o.weight_decay = object.number("weight_decay", 0, 1e3);
  parse_clipping_and_rate(object, o);
  object.finish();
  if (const auto fault = fault_of(o)) object.fail(fault->key, fault->expected);
  return o;
}

}  // namespace weir
