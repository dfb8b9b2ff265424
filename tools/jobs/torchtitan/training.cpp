// The tables training, optimizer and lr_scheduler of a torchtitan job.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace weir {
namespace {

void set_titan_optimizer(TomlTable& t, Plan& plan, std::vector<Remark>& remarks) {
  const std::string name = t.text_or("optimizer.name", "AdamW");
  Optimizer& o = plan.optimizer;
  if (name != "AdamW" && name != "Adam")
    t.fail("optimizer.name", fmt::format("{}: expected AdamW or Adam", name.substr(0, 40)));
  if (name == "Adam") o.kind = OptimizerKind::adam;
  o.clip_norm = t.number_or("training.max_norm", 1, 0, 1e9);
  if (o.clip_norm == 1e9) o.clip_norm = 0;  // as the export writes none, which torchtitan has not
  o.learning_rate = t.number_or("optimizer.lr", 8e-4, 0, 1e6);
  o.beta1 = t.number_or("optimizer.beta1", 0.9, 0, 1);
  o.beta2 = t.number_or("optimizer.beta2", 0.95, 0, 1);
  o.epsilon = t.number_or("optimizer.eps", 1e-8, 0, 1);
  o.weight_decay = t.number_or("optimizer.weight_decay", 0.1, 0, 1e3);
  // Groups of a registry by DistMuon (torchtitan/distributed/flex_shard/dist_muon.py, whose steps
  // and momentum are torch.optim.Muon's): matrices of blocks, whole on one replica each.
  if (t.flag_or("optimizer.muon", false)) {
    o.kind = OptimizerKind::muon;
    o.momentum = t.number_or("optimizer.muon_momentum", 0.95, 0, 1);
    o.nesterov = t.flag_or("optimizer.muon_nesterov", true) && o.momentum > 0;
    o.newton_schulz = static_cast<int>(t.integer_or("optimizer.muon_ns_steps", 5, 1, 100));
  }
  const std::string kernels = t.text_or("optimizer.implementation", "fused");
  if (kernels != "fused") {
    remarks.push_back({"optimizer.implementation",
                       kernels + ": updates in other kernels than the fused one, not modelled"});
  }
}

// torchtitan's step n of the warm-up has (n + 1) / warmup of the rate, Megatron's and the plan's
// n / warmup.
void set_titan_rate(TomlTable& t, Plan& plan, std::vector<Remark>& remarks) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  RateSchedule& rate = plan.optimizer.rate;
  const std::int64_t steps = t.integer_or("training.steps", 10000, 1, kMost);
  rate.warmup_iters = std::min(t.integer_or("lr_scheduler.warmup_steps", 200, 0, kMost), steps);
  const double share = t.number_or("lr_scheduler.decay_ratio", 1, 0, 1);
  const double least = t.number_or("lr_scheduler.min_lr_factor", 0, 0, 1);
  const std::string style = t.text_or("lr_scheduler.decay_type", "linear");
  const auto known = parse_decay_style(style);
  const auto decaying = static_cast<double>(steps) * share;
  if (share == 0) return;
  if (!known || *known == DecayStyle::constant) {
    remarks.push_back({"lr_scheduler.decay_type", style.substr(0, 40) + ": constant in the plan"});
  } else if (decaying < static_cast<double>(steps - rate.warmup_iters)) {
    remarks.push_back(
        {"lr_scheduler.decay_ratio",
         fmt::format("{}: the plan's decay begins behind the warm-up; constant in the "
                     "plan",
                     share)});
  } else if (rate.warmup_iters < steps) {
    rate.style = *known;
    rate.decay_iters = steps;
    // To 15 figures: 0.1 of 3e-4 is 3e-5, which the product of doubles misses by its last bit.
    rate.min_lr = std::stod(fmt::format("{:.15g}", least * plan.optimizer.learning_rate));
  }
}

Dtype titan_dtype(TomlTable& t, std::vector<Remark>& remarks) {
  const std::string stored = t.text_or("training.dtype", "float32");
  const std::string name = t.text_or("training.mixed_precision_param", "bfloat16");
  const std::string reduce = t.text_or("training.mixed_precision_reduce", "float32");
  if (reduce != "float32") {
    remarks.push_back({"training.mixed_precision_reduce",
                       reduce + ": gradients are reduced in fp32 in the plan"});
  }
  if (stored != "float32") {
    remarks.push_back(
        {"training.dtype", stored + ": the plan's master weights and moments are fp32"});
  }
  if (name == "bfloat16" || stored == "bfloat16") return Dtype::bf16;
  if (name != "float32") t.fail("training.mixed_precision_param", "expected bfloat16 or float32");
  return Dtype::fp32;
}

}  // namespace

void set_torchtitan_training(TomlTable& t, Plan& plan, std::vector<Remark>& remarks) {
  plan.dtype = titan_dtype(t, remarks);
  set_titan_optimizer(t, plan, remarks);
  set_titan_rate(t, plan, remarks);
}

}  // namespace weir
