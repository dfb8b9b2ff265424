// The launches of exec/cuda/layers and exec/cuda/transformer, in their order.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/executor_kernels.hpp"

#include <algorithm>
#include <stdexcept>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "plan/model/model_part.hpp"

namespace weir {
namespace {

constexpr std::int64_t kIndex = 4, kFloat = 4, kLoss = 8;  // bytes
constexpr std::int64_t kRowsPerPartial = 32;               // exec/cuda/kernels/sums.hpp

// Rows x are the micro-batch's tokens, e the bytes of an activation.
class Lister {
 public:
  Lister(const ExecutorStep& step, std::vector<KernelWork>& all)
      : step_(step),
        all_(all),
        rows_(step.seq_length * step.batch),
        e_(bytes_per_element(step.dtype)) {}

  void list(const Layer& layer, const LayerTensors& tensors) {
    layer_ = kind_name(layer);
    tensors_ = &tensors;
    std::visit([this](const auto& shape) { (*this)(shape); }, layer.shape);
  }

  void update(const Model& model) {
    layer_ = "all";
    action_ = "OPTIMIZER";
    // Read: gradient, master weight and states; written: the last two, and in 16 bits the copy that
    // products read.
    const std::int64_t states = step_.optimizer == OptimizerKind::adamw ? 2 : 1;
    const std::int64_t each =
        kFloat * (1 + 2 * (1 + states)) + (step_.dtype == Dtype::bf16 ? e_ : 0);
    add(step_.optimizer == OptimizerKind::adamw ? "adamw_kernel" : "sgd_kernel",
        parameter_count(model) * each);
  }

 private:
  void operator()(const EmbeddingShape& shape) {
    const std::int64_t positions = std::min(shape.positions, step_.seq_length) * shape.hidden;
    action_ = "F";
    add("embed_kernel", rows_ * kIndex + (rows_ * shape.hidden + positions) * e_ + output());
    action_ = "B";
    add("fill of gradients", (shape.vocabulary + shape.positions) * shape.hidden * kFloat);
    add("embed_token_gradient_kernel",
        rows_ * kIndex + output() + 2 * rows_ * shape.hidden * kFloat);
    if (shape.positions > 0)
      add("embed_position_gradient_kernel", output() + 2 * positions * kFloat);
  }

  void operator()(const TransformerShape& shape) {
    const std::int64_t h = shape.hidden, f = shape.ffn;
    const bool bf16 = step_.dtype == Dtype::bf16, drops = shape.residual_dropout > 0;
    const bool gelu = bf16 && shape.activation == Activation::gelu_tanh && f % 8 == 0;
    const std::int64_t up = kept("mlp.up"), activated = kept("mlp.activated");
    action_ = "F";
    norm(h);
    product("product: qkv", 3 * h, h);
    attention(shape, false);
    product("product: attention output", h, h, drops ? 0 : output());
    norm(h, drops ? 2 * output() : 0);
    product(gelu ? "product: up, GELU" : "product: up", f, h, gelu ? activated : 0);
    if (!gelu) add("activate_kernel", up + activated);
    product("product: down", h, f, drops ? 0 : output());
    if (drops) add("dropout_kernel", 3 * output());
    action_ = "B";
    if (drops) add("dropout_kernel", 2 * output(), 2);  // for the input's pass and the weights'
    product("product: down input", f, h);
    add("activate_kernel", 2 * up + activated);
    product("product: up input", h, f);
    norm_gradient(h, output());
    product("product: attention output input", h, h);
    attention(shape, true);
    product("product: qkv input", h, 3 * h);
    norm_gradient(h, output());
    weight("product: down weight", f, h, bf16);
    weight("product: up weight", h, f, bf16);
    weight("product: attention output weight", h, h, bf16);
    weight("product: qkv weight", h, 3 * h, bf16);
    // Vectors that are added at the end: the norms', and in bf16 the biases'.
    const std::int64_t vectors = 4 * h + (bf16 ? 5 * h + f : 0);
    add("accumulate_kernel", 2 * vectors * kFloat);
  }

  void operator()(const NormShape& shape) {
    action_ = "F";
    norm(shape.hidden);
    action_ = "B";
    norm_gradient(shape.hidden, 0);
    add("accumulate_kernel", 4 * shape.hidden * kFloat);
  }

  void operator()(const HeadShape& shape) {
    const std::int64_t logits = rows_ * logits_row(shape.vocabulary, e_) * e_;
    action_ = "F";
    // In 16 bits with the padding (exec/cuda/blas/linear.hpp).
    const std::int64_t v = logits_row(shape.vocabulary, e_), h = shape.hidden;
    product("product: logits", v, h);
    add(holds_row(shape) ? "held_cross_entropy_kernel" : "cross_entropy_kernel",
        2 * logits + rows_ * (kIndex + kLoss));
    add("sum_losses_kernel", rows_ * kLoss);
    action_ = "B";
    product("product: head input", h, v);
    weight("product: head weight", h, v, false, false);
  }

  void operator()(const CellShape&) { refuse(); }
  void operator()(const TimedShape&) { refuse(); }
  void operator()(const SizedShape&) { refuse(); }
  [[noreturn]] static void refuse() {
    throw std::logic_error("a layer without kernels is not listed");
  }

  // As 16-byte words in shared memory (exec/cuda/kernels/cross_entropy.cu).
  [[nodiscard]] bool holds_row(const HeadShape& shape) const {
    const std::int64_t lanes = 16 / e_;
    return logits_row(shape.vocabulary, e_) % lanes == 0 &&
           ceil_div(shape.vocabulary, lanes) * 16 <= kMostHeld;
  }

  void add(std::string name, std::int64_t bytes, std::int64_t calls = 1, Flops flops = Flops(0)) {
    const auto same = [&](const KernelWork& one) {
      return one.layer == layer_ && one.action == action_ && one.name == name &&
             one.bytes.count() == bytes && one.flops.count() == flops.count();
    };
    const auto found = std::find_if(all_.begin(), all_.end(), same);
    if (found != all_.end()) {
      found->calls += calls;
    } else {
      all_.push_back({layer_, action_, std::move(name), calls, flops, Bytes(bytes)});
    }
  }

  // rows x n from rows x k and a weight; `beside`: bytes that are read or written besides.
  void product(const char* name, std::int64_t n, std::int64_t k, std::int64_t beside = 0) {
    add(name, (rows_ * (n + k) + n * k) * e_ + beside, 1, flops(rows_, n, k));
  }
  // n x k in fp32 from rows x n and rows x k, for the first micro-batch; the bias' gradient beside
  // it, or by two kernels behind it.
  void weight(const char* name, std::int64_t k, std::int64_t n, bool fused, bool bias = true) {
    add(name, rows_ * (n + k) * e_ + n * k * kFloat + (fused ? n * kFloat : 0), 1,
        flops(n, k, rows_));
    if (fused || !bias) return;
    add("column_partials_kernel", rows_ * n * e_ + partials(n));
    add("sum_partials_kernel", partials(n) + n * kFloat);
  }
  // With a residual two tensors more: the other addend, and the sum that stays.
  void norm(std::int64_t h, std::int64_t residual = 0) {
    add("layer_norm_kernel", 2 * rows_ * h * e_ + 2 * h * e_ + 2 * rows_ * kFloat + residual);
  }
  void norm_gradient(std::int64_t h, std::int64_t residual) {
    add("layer_norm_gradient_kernel",
        3 * rows_ * h * e_ + h * e_ + 2 * rows_ * kFloat + residual + 2 * partials(h));
    add("sum_partials_kernel", 2 * partials(h) + 2 * h * kFloat);
  }
  // The kernels of fused attention as one; of unfused attention those of every sample.
  void attention(const TransformerShape& shape, bool backward) {
    const CoreFlops core = core_flops(shape, step_.seq_length);
    const std::int64_t qkv = kept("attention.qkv"), context = kept("attention.context");
    const double samples = static_cast<double>(step_.batch);
    if (shape.attention == AttentionKind::fused) {
      const std::int64_t statistics = kept("attention.statistics");
      if (backward) {
        add("fused attention, backward", 2 * qkv + 2 * context + statistics, 1,
            Flops(core.backward.count() * samples));
      } else {
        add("fused attention", qkv + context + statistics, 1,
            Flops(core.forward.count() * samples));
      }
      return;
    }
    const std::int64_t s = step_.seq_length, d = shape.head_dim, heads = shape.heads,
                       scores = heads * s * s, part = heads * s * d * e_, calls = step_.batch;
    const Flops each = flops(heads * s, s, d);
    const bool drops = shape.attention_dropout > 0;  // the masked probabilities are kept apart
    if (!backward) {
      add("product: scores", 2 * part + scores * kFloat, calls, each);
      add("causal_softmax_kernel", scores * (kFloat + (drops ? 2 : 1) * e_), calls);
      add("product: context", scores * e_ + 2 * part, calls, each);
      return;
    }
    if (drops) add("dropout_kernel", 2 * scores * e_, calls);
    add("product: values' gradient", scores * e_ + 2 * part, calls, each);
    add("product: probabilities' gradient", 2 * part + scores * kFloat, calls, each);
    add("softmax_gradient_kernel", scores * (kFloat + 2 * e_), calls);
    add("product: queries' and keys' gradients", scores * e_ + 2 * part, 2 * calls, each);
  }

  [[nodiscard]] static Flops flops(std::int64_t m, std::int64_t n, std::int64_t k) {
    return Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }
  [[nodiscard]] std::int64_t partials(std::int64_t width) const {
    return ceil_div(rows_, kRowsPerPartial) * width * kFloat;
  }
  [[nodiscard]] std::int64_t output() const {
    return tensors_->output_bytes_per_sample * step_.batch;
  }
  [[nodiscard]] std::int64_t kept(const char* name) const {
    for (const KeptTensor& tensor : tensors_->saved) {
      if (tensor.name == name) return tensor.bytes_per_sample * step_.batch;
    }
    throw std::logic_error(std::string("a layer keeps no ") + name);
  }

  static constexpr std::int64_t kMostHeld = std::int64_t{99} * 1024;
  const ExecutorStep& step_;
  std::vector<KernelWork>& all_;
  std::int64_t rows_, e_;
  std::string layer_, action_;
  const LayerTensors* tensors_ = nullptr;
};

}  // namespace

// Passes of all layers upwards, then downwards, as they are launched.
std::vector<KernelWork> executor_kernels(const Model& model, const ExecutorStep& step) {
  std::vector<KernelWork> all;
  Lister lister(step, all);
  const ModelPart part = model_part(model, step.seq_length, step.dtype);
  for (std::size_t l = 0; l < model.layers.size(); ++l)
    lister.list(model.layers[l], part.layers[l].tensors);
  lister.update(model);
  const auto place = [](const KernelWork& kernel) {
    return kernel.action == "F" ? 0 : kernel.action == "B" ? 1 : 2;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const KernelWork& a, const KernelWork& b) { return place(a) < place(b); });
  return all;
}

Seconds least_time(const KernelWork& kernel, const Device& device, Dtype dtype) {
  return std::max(kernel.flops / peak_rate(device, dtype), kernel.bytes / device.memory_bandwidth);
}

}  // namespace weir
