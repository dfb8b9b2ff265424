// Sailor's validation on GH200: OPT-350M and GPT-Neo 2.7B by Megatron-DeepSpeed without ZeRO, in
// 1F1B, with the layers of each stage stated.
//
// eth-easl/sailor@cf2c8e3: sequence 2048 (ae_scripts/clariden_scripts/run_opt.slurm), numbers
// of four bytes (no --fp16) multiplied in TF32 (Dockerfile: nvcr.io/nvidia/pytorch, where that is
// the default), Hugging Face's OPT and GPT-Neo sizes, unfused attention, a head of its own.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "tools/reproduce/measured/measured_run.hpp"
#include "tools/reproduce/measured/shapes.hpp"

namespace weir {
namespace {

constexpr int kSailorSequence = 2048;
constexpr double kSailorGib = 1024.0 * 1024.0 * 1024.0;

const std::map<std::string, DecoderSizes>& sizes_by_name() {
  static const std::map<std::string, DecoderSizes> kSizes{
      {"OPT-350M", {24, 1024, 16, 50272, 0, 0, false, false, true}},
      {"GPT-Neo-2.7B", {32, 2560, 20, 50257, 0, 0, false, false}}};
  return kSizes;
}

// "7/9/9/9" of embedding, blocks and head, the norm being the head's: where each stage ends.
std::vector<int> ends_of(const PublishedRow& c, int stages) {
  std::vector<int> ends;
  std::istringstream parts(c.text("layers_per_stage"));
  int end = 0;
  for (std::string part; std::getline(parts, part, '/');) {
    const auto layers = parse_printed(part);
    if (!layers) c.fail("layers_per_stage", "expected numbers, as 7/9/9/9");
    end += static_cast<int>(layers->value);
    ends.push_back(end);
  }
  if (static_cast<int>(ends.size()) != stages)
    c.fail("layers_per_stage", fmt::format("expected {} numbers", stages));
  return ends;
}

}  // namespace

std::vector<MeasuredRun> read_sailor(const Publications& published) {
  DecoderShelf shelf;
  std::vector<MeasuredRun> runs;
  for (const PublishedRow& c : published.table("sailor_validation.csv")) {
    MeasuredRun run;
    Plan& plan = run.plan;
    plan.seq_length = kSailorSequence;
    plan.dtype = Dtype::tf32;
    plan.tp = c.integer("tp");
    plan.pp = c.integer("pp");
    plan.dp = c.integer("dp");
    plan.micro_batch_size = c.integer("micro_batch");
    plan.microbatches = c.share("global_batch", plan.micro_batch_size * plan.dp);
    plan.schedule = "1f1b";
    plan.slots = 0;
    plan.boundaries = ends_of(c, plan.pp);
    const int items = plan.boundaries.back();
    // The last boundary is the end of the model, which a plan does not have.
    plan.boundaries.pop_back();
    run.model_name = c.text("model");
    const DecoderSizes& sizes = named(sizes_by_name(), c, "model");
    // Items are embedding, blocks and head: two more than blocks.
    if (items != sizes.layers + 2)
      run.unforeseen = fmt::format("{} items are not its model's {}", items, sizes.layers + 2);
    run.model = shelf.get(sizes, kSailorSequence, AttentionKind::unfused);
    run.row = fmt::format("{} d={} t={} p={} b={} M={}", run.model_name, plan.dp, plan.tp, plan.pp,
                          plan.micro_batch_size, plan.microbatches);
    run.step = PrintedStep{"step, s", c.printed("step_s")};
    const Printed bytes = c.printed("max_memory_bytes");
    run.memory_gib = Printed{bytes.value / kSailorGib, bytes.last_digit / kSailorGib};
    run.reading = MemoryReading::fullest_device;  // deepspeed/pipe_engine.py asks nvidia-smi
    set_machine(run, "gh200", "megatron-deepspeed-fp32");
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir
