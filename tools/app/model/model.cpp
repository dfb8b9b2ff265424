// The layers of a model, or the layouts of a program.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/model.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/layers/layer_math.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/machine.hpp"

namespace weir::app {

Fields fields(ModelRequest& request) {
  Fields all = weir::fields(request.plan);
  // A program of layouts stands in for a model.
  all.front().traits.required = false;
  all.push_back({"--layout", &request.layouts.file,
                 "A program and its layouts, instead of a model: weir layout"});
  append(all, run_fields(request.layouts));
  append(all, fields(request.networks));
  all.push_back({"--kernels", &request.kernels,
                 "What the CUDA executor launches in a step, kernel by kernel: bytes, FLOPs, and "
                 "the least time on --gpu; needs no GPU"});
  all.push_back({"--gpu", &request.gpu,
                 "Of --kernels: a cluster file, a compiled one's name, or its device's (h100)"});
  all.push_back({"-b,--micro-batch-size",
                 &request.micro_batch_size,
                 "Of --kernels, --rules and --devices: samples of a micro-batch, of all devices",
                 {.range = {{1, 1 << 20}}}});
  all.push_back(seed_field(request.seed));
  return all;
}

namespace {

// As `weir layout` has it: of the file, or of the model.
ModelResult of_layout(const ModelRequest& request, const Session& session) {
  LayoutRequest its{.plan = request.plan,
                    .layouts = request.layouts,
                    .networks = request.networks,
                    .micro_batch_size = request.micro_batch_size,
                    .seed = request.seed};
  if (request.layouts.file) its.plan.model = *request.layouts.file;
  return {.layout = layout_use(its, session)};
}

// Options that go with none of what is asked for.
void refuse_idle(const ModelRequest& request, bool of_layouts, const Session& session) {
  if (request.kernels && of_layouts)
    throw UsageError("--kernels lists those of a model, not of layouts");
  if (request.kernels == request.gpu.empty())
    throw UsageError("--kernels and --gpu belong together");
  if (of_layouts) return;
  if (request.networks.cluster) throw UsageError("--cluster prices --rules, or --devices");
  session.refuse({"run", "workers", "rounds"}, "needs --layout, --rules or --devices");
  if (!request.kernels) session.refuse({"micro-batch-size"}, "is of --kernels and of layouts");
}

}  // namespace

ModelResult model(const ModelRequest& asked, const Session& session) {
  ModelRequest request = asked;
  const bool has_model = !request.plan.model.empty(),
             has_layouts = request.layouts.file.has_value();
  if (has_model == has_layouts) throw UsageError("model: expected MODEL, or --layout FILE");
  const bool of_layouts = has_layouts || request.networks.asked();
  refuse_idle(request, of_layouts, session);
  if (of_layouts) return of_layout(request, session);
  // Once for the model and its plan's hash: a pipe has it once.
  request.plan.model_text = read_text_file(request.plan.model);
  ModelResult result{.model = load_model(request.plan)};
  const Plan plan = base_plan(request.plan, request.seed, result.model, session,
                              request.kernels ? SampleLength::needed : SampleLength::not_needed);
  result.seq_length = plan.seq_length;
  if (request.kernels) {
    result.kernels = model_kernels(result.model,
                                   {.seq_length = plan.seq_length,
                                    .batch = request.micro_batch_size,
                                    .dtype = plan.dtype,
                                    .optimizer = plan.optimizer.kind},
                                   load_gpu(request.gpu));
    return result;
  }
  // Asked for without a length: parameters can be counted all the same.
  if (!has_length(result)) {
    session.note(fmt::format(
        "FLOPs and bytes need the tokens of a sample: --seq-length (the model {} {})",
        result.model.longer ? "speaks of" : "accepts up to", result.model.max_positions));
  }
  result.dtype = plan.dtype;
  return result;
}

bool has_length(const ModelResult& result) {
  return result.seq_length > 0 || result.model.max_positions == 0;
}

nlohmann::ordered_json to_json(const ModelResult& result) {
  if (result.layout) return to_json(*result.layout);
  if (result.kernels) return to_json(*result.kernels);
  const Model& model = result.model;
  const std::int64_t seq_length = result.seq_length;
  nlohmann::ordered_json json{
      {"schema", "weir.model/1"}, {"name", model.name},
      {"family", model.family},   {"parameters", parameter_count(model)},
      {"seq_length", seq_length}, {"layers", nlohmann::ordered_json::array()}};
  std::optional<ModelPart> part;
  // Without a length there is nothing to count bytes of.
  if (has_length(result)) part = model_part(model, seq_length, result.dtype);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    nlohmann::ordered_json entry{{"name", layer.name},
                                 {"kind", kind_name(layer)},
                                 {"parameters", parameter_count(layer)},
                                 {"flops_forward", nullptr},
                                 {"activation_bytes", nullptr},
                                 {"boundary_bytes", nullptr}};
    if (part) {
      entry["flops_forward"] = forward_flops(layer, seq_length).count();
      entry["activation_bytes"] = activation_bytes(*part, static_cast<int>(l)).count();
      entry["boundary_bytes"] = part->layer(static_cast<int>(l)).crossing_bytes;
    }
    json["layers"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace weir::app
