// A backend is one device as the interpreter sees it: memory, the kernels of each layer's F, I and
// W, the optimizer's update, and order. The contract is asynchronous, as GPUs need: a launch may
// return before its work is done; `finish` returns when all that was launched is. A backend that
// completes each launch before it returns (cpu) finishes at once; one that does not has a stream
// (exec/device/stream), by which a whole step is launched without waiting. What must be kept
// between the kernels of a layer is plan/model/layer_tensors' business; a backend gets the tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/kernel_watch.hpp"
#include "exec/device/tensor_group.hpp"
#include "plan/job/plan.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/model/model.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Which random numbers a layer draws in this pass.
struct DropoutCounter {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t layer = 0;
};

// One pass of one layer over one micro-batch. Tensors that a pass does not use are empty.
struct LayerCall {
  const Layer* layer = nullptr;
  std::int64_t batch = 1;       // samples
  std::int64_t seq_length = 1;  // tokens a sample
  DropoutCounter dropout;
  std::span<const Tensor> weights;    // in the order of LayerTensors::parameters
  std::span<const Tensor> gradients;  // fp32, same order; W adds to them
  bool accumulate = true;  // false: W overwrites the gradients (first micro-batch of a step)
  // The same of running statistics' sums, which are whole at every replica: where replicas divide
  // gradients, each micro-batch's overwrite and these add up.
  bool accumulate_running = true;
  Tensor input, output;  // [batch, seq_length, hidden]
  Tensor output_gradient, input_gradient;
  std::span<const Tensor> saved;  // in the order of LayerTensors::saved
  std::span<const Tensor> carried;
  Tensor workspace;
  // Host memory, [batch, sample_words] (plan/model/sample): inputs, and targets one further on; or
  // images and their targets, all in fp32.
  const std::int32_t* tokens = nullptr;
  std::int64_t sample_words = 2;
  double sample_share = 1;   // batch norm: 1 / samples of the mini-batch
  double loss_scale = 1;     // head: 1 / targets of the mini-batch
  std::int64_t classes = 0;  // head: V undivided; a device's rows beyond it are padding
  double* loss = nullptr;    // head's F: where its share of the mean loss goes; null in R
  // I of a block: what is saved of the attention's core was dropped and is made again first
  // (recompute selective).
  bool core_dropped = false;
};

// pass(shape) of a layer that has kernels. Those of which only times or sizes are known have none;
// a run refuses them before it starts.
template <class Pass>
auto visit_kernels(const Layer& layer, Pass pass) {
  return std::visit(
      [&](const auto& shape) -> std::invoke_result_t<Pass, const NormShape&> {
        using Shape = std::decay_t<decltype(shape)>;
        if constexpr (std::is_same_v<Shape, TimedShape> || std::is_same_v<Shape, SizedShape>) {
          throw std::logic_error("a timed or sized layer has no kernels");
        } else {
          return pass(shape);
        }
      },
      layer.shape);
}

struct UpdateCall {
  Tensor weight;  // as the kernels read it
  Tensor master;  // fp32, where the weight is in fewer bits; else empty, and the weight is its own
  std::span<const Tensor> gradients;  // summed in this order (copies of a weight), then applied
  Tensor state1, state2;  // momentum, or Adam's two moments; empty where the optimizer has none
  std::int64_t elements = 0;
  bool decays = false;
  // Not learned: `gradients` are the mini-batch's moments about the weight, over so many samples.
  std::optional<RunningStatistics> running;
  std::int64_t samples = 1;
  std::int64_t step = 1;  // 1-based
  double factor = 1;      // of the gradient: clipping's
  Optimizer optimizer;
};

// A rank's share of a GPU and what it holds there, as its driver counts. Nothing here enters a
// forecast: the arena's peak is what the contract of plan/model/layer_tensors promises, this is
// what the machine gave.
struct DeviceUse {
  std::string sharing;  // "SM-partitioned: 2 groups of 64 of 132 multiprocessors"; the same for all
                        // ranks of a run
  int device = 0;       // its number in the process
  int multiprocessors = 0;  // the rank's share
  int ranks = 1;            // at most, of one device
  Bytes pool_peak{0};       // most bytes in use at once in the rank's memory pool
  Bytes pool_reserved{0};   // what the pool holds now
  Bytes device_used{0};     // in use on the whole device now, by anybody
  std::string attention;    // whose fused kernels, and why not others: "cuDNN", "own (...)"; empty
                            // where there are none
  std::string products;     // that do not run as they were chosen; empty: all do
};

// Memory of the host that lives as long as this does.
using HostMemory = std::unique_ptr<std::byte[], void (*)(std::byte*) noexcept>;

// Sums of squares of some weights' gradients, which stay on the device.
struct SquaresCall {
  struct One {
    std::span<const Tensor> gradients;  // summed in this order (copies of a weight)
    std::int64_t elements = 0;
  };
  std::span<const One> of;
  Tensor room;           // Backend::squares_room of all of them
  double* to = nullptr;  // a number a weight
};

// From the squares of all weights to the factor that clips their gradients.
struct FactorCall {
  const double* squares = nullptr;  // [parts, weights]
  std::int64_t weights = 0;
  int parts = 1;
  int places = 1;   // a weight's parts are added in order, first those of a place: every so many
  double most = 0;  // the optimizer's clip_norm
  Tensor factor;    // where it stays until the step's last update
};

// Some arrays of which each of several devices has a term, added in the devices' order: this one's
// own is in its place, where the sum comes to be.
struct OrderedSums {
  struct One {
    float* own = nullptr;
    const float* others = nullptr;  // of the first other device; the next one's is `stride` further
    std::int64_t elements = 0;
  };
  std::span<const One> of;
  int terms = 1;
  int own = 0;              // which of the terms is this device's
  std::int64_t stride = 0;  // numbers
};

// Pieces of rows: of each row `bytes` from its byte `from_offset` on to byte `to_offset` of a row
// of another tensor.
struct RowsCopy {
  Tensor from, to;
  std::int64_t rows = 0, bytes = 0;
  std::int64_t from_offset = 0, from_row = 0;  // and how long its rows are
  std::int64_t to_offset = 0, to_row = 0;
};

class Backend : public BlockSource {
 public:
  // Null: every launch is complete when it returns.
  [[nodiscard]] virtual Stream* stream() { return nullptr; }

  // Null: kernels are not recorded. The same for all backends that were asked for them in one
  // process.
  [[nodiscard]] virtual KernelWatch* kernel_watch() { return nullptr; }

  // Called on the worker thread before anything else: pin, select the device, prepare for these
  // layers.
  virtual void prepare(std::span<const Layer> layers, std::int64_t batch,
                       std::int64_t seq_length) = 0;
  // Library scratch memory needed by the prepared layers, taken from the arena for the whole run.
  [[nodiscard]] virtual std::int64_t scratch_bytes() const = 0;
  virtual void use_scratch(const Tensor& scratch) = 0;
  // Before the first pass, where it was made with a group whose tensors are not the host's: what
  // connects it with the group's other devices. Outlives all launches.
  virtual void connect(TensorLinks& links);

  // Before a step's first launch, when all that was launched before is finished. Whatever depends
  // on the step may be taken from here on from what this has put in place, so that a launch
  // recorded in one step (GraphCapture) is right in every other: where steps are repeated, it
  // learns the step's number here and nowhere else.
  virtual void begin_step(std::uint32_t) {}

  virtual void forward(const LayerCall& call) = 0;
  virtual void backward_input(const LayerCall& call) = 0;
  virtual void backward_weight(const LayerCall& call) = 0;
  // The head's product again, from the input of its F, into the host's memory: [b, s, V] in fp32.
  // Throws MissingComponent where the backend cannot give them.
  virtual void logits(const LayerCall& call, float* to);
  // Of all parameters of a stage, which may be launched as one; each by its own call alone.
  virtual void update(std::span<const UpdateCall> calls) = 0;
  // Of the sum of these gradients (copies of a weight), in this order. Throws MissingComponent
  // where the backend cannot give it.
  [[nodiscard]] virtual double sum_of_squares(std::span<const Tensor> gradients,
                                              std::int64_t elements);
  // The same where launches do not wait, for backends with a stream; others throw std::logic_error.
  // Squares and sums are launched on a stream of this device, the factor on the backend's own,
  // and every update behind it multiplies gradients by it. Of a weight squares are the same bits
  // whatever others the call is of.
  [[nodiscard]] virtual std::int64_t squares_room(
      std::int64_t elements) const;  // bytes of a weight
  virtual void launch_squares(const SquaresCall& call, Stream& on);
  virtual void launch_factor(const FactorCall& call);
  virtual void launch_sums(const OrderedSums& sums, Stream& on);
  // What a stage's row has of messages. Throws MissingComponent where tensors are not in the host's
  // memory.
  virtual void copy_rows(const RowsCopy& copy);
  virtual void finish() = 0;

  // For tokens and losses, which launches read and write when they run: a GPU reaches them without
  // a copy in between.
  [[nodiscard]] virtual HostMemory host_memory(std::int64_t bytes) {
    return {new std::byte[static_cast<std::size_t>(bytes)],
            [](std::byte* data) noexcept { delete[] data; }};
  }
  // Whether tensors may be read and written by the host where they are.
  [[nodiscard]] virtual bool in_host_memory() const { return false; }
  virtual void to_device(const Tensor& to, const void* from, std::int64_t bytes) = 0;
  virtual void to_host(void* to, const Tensor& from, std::int64_t bytes) = 0;
  virtual void put_zeros(const Tensor& to);  // all of it

  // What is left of memory that all devices of this kind share, before any of it is asked for;
  // absent where each has its own or nobody knows.
  [[nodiscard]] virtual std::optional<Bytes> shared_memory() const { return std::nullopt; }

  // For measurements: afterwards no cache holds a tensor that was used before. May return before it
  // is done.
  virtual void evict_caches() {}

  // Nothing where a rank is a core.
  [[nodiscard]] virtual std::optional<DeviceUse> device_use() const { return std::nullopt; }
};

struct BackendRequest {
  int rank = 0;
  int ranks = 1;  // that share this process's devices
  Dtype dtype = Dtype::fp32;
  // cuda: kernels are chosen for so many multiprocessors; 0: an eighth of the device, which is the
  // smallest share of up to eight ranks. The same for every K, so that bits are.
  int multiprocessors = 0;
  bool fastest = false;  // cuda: chosen for the rank's own group; gives up equal bits over K
  bool kernels = false;  // cuda: every kernel is recorded (kernel_watch)
  // The devices that divide the layers with this one, of each of which it is given its part;
  // outlives the backend. Where tensors are not the host's it says who they are, and
  // Backend::connect how to reach them. Null: layers are whole.
  TensorGroup* group = nullptr;
  bool divides_rows = false;  // with a group: sequence parallelism
  // cuda: ranks are processes. Those of one device take turns on it, each with all of it.
  bool processes = false;
};
// Throws MissingComponent where there is no such device or no recorder of kernels, UsageError where
// it cannot compute in this format.
using BackendFactory = std::function<std::unique_ptr<Backend>(const BackendRequest&)>;

enum class BackendKind : std::uint8_t { cpu, cuda, synthetic };
[[nodiscard]] std::string to_string(BackendKind kind);

// What this build can run on; the caller assembles it, so that the interpreter knows no library.
using Backends = std::map<BackendKind, BackendFactory>;
// Throws MissingComponent where this build has no such backend.
[[nodiscard]] const BackendFactory& factory_of(BackendKind kind, const Backends& backends);

}  // namespace weir
