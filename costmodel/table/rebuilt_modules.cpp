// By the shapes of a block.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/rebuilt_modules.hpp"

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "plan/job/stack_part.hpp"

namespace weir {

double rebuilt_share(const Layer& layer, std::int64_t seq_length, ModuleSet modules) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return 0;
  const bool experts = block->experts > 1;
  double numbers = 0;  // of the weights that a token is multiplied with
  const bool all = modules.meets(experts ? BlockModule::moe : BlockModule::mlp);
  const std::int64_t visited = experts ? block->experts_per_token : 1;
  const bool shared = all || modules.meets(BlockModule::shared_experts);
  const std::int64_t width = (all ? visited * block->ffn : 0) + (shared ? block->shared_ffn : 0);
  // Gated MLPs have three products a token, others two.
  numbers += static_cast<double>((block->gated ? 3 : 2) * width * block->hidden);
  if (const LatentAttention& latent = block->latent;
      latent.key_value > 0 && modules.meets(BlockModule::mla_up_proj)) {
    const std::int64_t query = latent.query * block->head_dim;
    const std::int64_t key_value =
        latent.key_value * (block->head_dim - latent.rotary + latent.value);
    numbers += static_cast<double>(block->heads * (query + key_value));
  }
  const double flops = 2 * numbers * static_cast<double>(seq_length);
  return flops / executed_flops(layer, seq_length).count();
}

double rebuilt_numbers(const Layer& layer, const Plan& plan) {
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return 0;
  const ModuleSet modules = plan.recompute.modules;
  const bool experts = block->experts > 1;
  const Split split = plan.split();
  const auto width = [&](Width of, Share share) {
    return width_of(of, share, *block, split, plan.seq_length);
  };
  double a_token = 0;
  if (modules.meets(BlockModule::layernorm)) {
    const int norms = (block->latent.key_value > 0 ? 1 : 0) + (experts ? 1 : 0);
    // Written once more, and read.
    a_token += 2 * norms * width(Width::hidden, Share::sequence);
  }
  if (modules.meets(BlockModule::moe_act) && experts) {
    for (const Width of : {Width::up, Width::ffn})
      a_token += width(of, Share::tensor) - shared_width_of(of, Share::tensor, *block, split);
  }
  return a_token * static_cast<double>(split.tokens(plan.seq_length) * plan.micro_batch_size);
}

Seconds rebuilt_time(const Layer& layer, const Plan& plan, Seconds forward,
                     const Cluster& cluster) {
  const Seconds products = forward * rebuilt_share(layer, plan.seq_length, plan.recompute.modules);
  if (!cluster.device.kernels) return products;
  const double bytes = rebuilt_numbers(layer, plan) * bytes_per_element(plan.dtype);
  if (bytes == 0) return products;
  return products + stream_time(Bytes(static_cast<std::int64_t>(bytes)), cluster.device);
}

}  // namespace weir
