// The launches of exec/cuda/embedding and its patches, exec/cuda/transformer and its parts,
// exec/cuda/layers and exec/cuda/head, in their order; cells have a file of their own.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/executor_kernels.hpp"

#include <algorithm>
#include <stdexcept>

#include "costmodel/layers/cell_kernels.hpp"
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
    for (const Layer& layer : model.layers) {
      if (const auto* cell = std::get_if<CellShape>(&layer.shape)) move_statistics(*cell);
    }
  }

 private:
  // Means and variances of a norm, the micro-batches' sums, and in 16 bits the copy.
  void move_statistics(const CellShape& cell) {
    for (const CellOperation& o : cell.operations) {
      if (o.kind != CellOperationKind::batch_norm) continue;
      const std::int64_t copy = step_.dtype == Dtype::bf16 ? 2 * e_ : 0;
      add("move_statistics_kernel", 2 * o.output.channels * (3 * kFloat + copy));
    }
  }

  // An image's rows are the class token's and those of its patches.
  void patches(const EmbeddingShape& shape) {
    const std::int64_t h = shape.hidden, images = step_.batch, in = shape.patch,
                       numbers = step_.seq_length * h, unfolded = kept("patches"), weights = h * in;
    const std::int64_t each = unfolded / images + (numbers - h) * e_;  // of an image's product
    const Flops of_an_image = flops(step_.seq_length - 1, h, in);
    action_ = "F";
    add("unfold_kernel", images * shape.image.numbers() * kFloat + unfolded);
    add("product: patches", images * each + weights * e_, 1,
        of_an_image * static_cast<double>(images));
    add("place_patches_kernel", 2 * output() + (numbers + 2 * h) * e_);
    action_ = "B";
    if (shape.dropout > 0) add("dropout_kernel", 2 * output());
    // Sums over images, and of those over patches.
    const std::int64_t over_patches = partials(step_.seq_length - 1, h);
    add("column_partials_kernel", output() + partials(images, numbers));
    add("sum_partials_kernel", partials(images, numbers) + numbers * kFloat);
    add("accumulate_kernel", 2 * (numbers + h) * kFloat);
    add("column_partials_kernel", (numbers - h) * kFloat + over_patches);
    add("sum_partials_kernel", over_patches + h * kFloat);
    add("product: patches weight", each + weights * kFloat, images, of_an_image);
  }

  void operator()(const EmbeddingShape& shape) {
    if (shape.patch > 0) return patches(shape);
    const std::int64_t positions = std::min(shape.positions, step_.seq_length) * shape.hidden;
    const std::int64_t types = shape.token_types * shape.hidden,
                       indices = (shape.token_types > 0 ? 2 : 1) * rows_ * kIndex;
    const bool drops = shape.dropout > 0;
    action_ = "F";
    add("embed_kernel", indices + (rows_ * shape.hidden + positions + types) * e_ + output());
    if (shape.norm) norm(NormKind::layer_norm, shape.hidden);
    if (shape.norm && drops) add("dropout_kernel", 2 * output());
    action_ = "B";
    if (shape.norm && drops) add("dropout_kernel", 2 * output());
    if (shape.norm) norm_gradient(NormKind::layer_norm, shape.hidden, {0, false});
    add("fill of gradients", (shape.vocabulary + shape.positions) * shape.hidden * kFloat);
    add("embed_token_gradient_kernel",
        rows_ * kIndex + output() + 2 * rows_ * shape.hidden * kFloat);
    if (shape.positions > 0)
      add("embed_position_gradient_kernel", output() + 2 * positions * kFloat);
    if (shape.token_types > 0) {
      // Each type's walk over the rows reads those that are its own.
      add("type_partials_kernel", shape.token_types * rows_ * kIndex + output() + partials(types));
      add("sum_partials_kernel", partials(types) + types * kFloat);
    }
    if (shape.norm) add("accumulate_kernel", 4 * shape.hidden * kFloat);
  }

  void operator()(const TransformerShape& shape) {
    const std::int64_t h = shape.hidden, f = shape.ffn, up_width = shape.gated ? 2 * f : f,
                       q = shape.heads * shape.head_dim,
                       qkv = q + 2 * shape.kv_heads * shape.head_dim;
    const bool bf16 = step_.dtype == Dtype::bf16, drops = shape.residual_dropout > 0;
    // Where cuBLASLt can add GELU to the product, no kernel of our own runs.
    const bool gelu = bf16 && shape.activation == Activation::gelu_tanh && !shape.gated &&
                      shape.mlp_bias && f % 8 == 0;
    const std::int64_t up = kept("mlp.up"), activated = kept("mlp.activated");
    action_ = "F";
    if (shape.pre_norm) norm(shape.norm, h);
    product("product: qkv", qkv, h);
    heads(shape, false);
    attention(shape, false);
    // Without dropout the residual is added within the product, which reads it too.
    product("product: attention output", h, q, drops ? 0 : output());
    norm(shape.norm, h, drops ? 2 * output() : 0);
    product(gelu ? "product: up, GELU" : "product: up", up_width, h, gelu ? activated : 0);
    if (!gelu) add(shape.gated ? "gate_kernel" : "activate_kernel", up + activated);
    product("product: down", h, f, drops ? 0 : output());
    if (!shape.pre_norm) norm(shape.norm, h, drops ? 2 * output() : 0);
    if (shape.pre_norm && drops) add("dropout_kernel", 3 * output());
    action_ = "B";
    // Behind a norm the output's gradient is masked by that norm's; in front of one it is for the
    // input's pass and for the weights'.
    if (!shape.pre_norm) norm_gradient(shape.norm, h, {0, drops});
    if (shape.pre_norm && drops) add("dropout_kernel", 2 * output(), 2);
    product("product: down input", f, h);
    add(shape.gated ? "gate_gradient_kernel" : "activate_kernel", 2 * up + activated);
    product("product: up input", h, up_width);
    if (!shape.pre_norm) add("dropout_kernel", 3 * output());  // the residual's gradient
    norm_gradient(shape.norm, h, {shape.pre_norm ? output() : 0, drops});
    product("product: attention output input", q, h);
    attention(shape, true);
    heads(shape, true);
    product("product: qkv input", h, qkv);
    if (!shape.pre_norm) add("dropout_kernel", 3 * output());
    if (shape.pre_norm) norm_gradient(shape.norm, h, {output(), false});
    weight("product: down weight", f, h, bf16, shape.mlp_bias);
    weight("product: up weight", h, up_width, bf16, shape.mlp_bias);
    weight("product: attention output weight", q, h, bf16, shape.output_bias);
    weight("product: qkv weight", h, qkv, bf16, shape.qkv_bias);
    // Vectors that are added at the end: the norms', and in bf16 the biases'.
    const std::int64_t biases = (shape.mlp_bias ? h + up_width : 0) + (shape.output_bias ? h : 0) +
                                (shape.qkv_bias ? qkv : 0);
    const std::int64_t vectors = 2 * vectors_of(shape.norm) * h +
                                 (shape.qk_norm ? 2 * shape.head_dim : 0) + (bf16 ? biases : 0);
    add("accumulate_kernel", 2 * vectors * kFloat);
  }

  void operator()(const NormShape& shape) {
    action_ = "F";
    norm(shape.kind, shape.hidden);
    action_ = "B";
    norm_gradient(shape.kind, shape.hidden, {0, false});
    add("accumulate_kernel", 2 * vectors_of(shape.kind) * shape.hidden * kFloat);
  }

  void operator()(const HeadShape& shape) {
    const std::int64_t all_rows = rows_;
    rows_ = step_.batch * shape.positions(step_.seq_length);
    const std::int64_t logits = rows_ * logits_row(shape.vocabulary, e_) * e_;
    const bool transform = shape.dense == HeadDense::transform;
    // In 16 bits with the padding (exec/cuda/blas/linear.hpp).
    const std::int64_t v = logits_row(shape.vocabulary, e_), h = shape.hidden,
                       each = rows_ * h * e_;
    action_ = "F";
    if (transform) {
      product("product: head dense", h, h);
      add("activate_kernel", 2 * each);
      norm(NormKind::layer_norm, h);
    }
    product("product: logits", v, h);
    add(holds_row(shape) ? "held_cross_entropy_kernel" : "cross_entropy_kernel",
        2 * logits + rows_ * (kIndex + kLoss));
    add("sum_losses_kernel", rows_ * kLoss);
    action_ = "B";
    product("product: head input", h, v);
    if (transform) {
      norm_gradient(NormKind::layer_norm, h, {0, false});
      add("activate_kernel", 3 * each);
      product("product: head dense input", h, h);
    }
    weight("product: head weight", h, v, false, shape.bias);
    if (transform) {
      weight("product: head dense weight", h, h, false);
      add("accumulate_kernel", 4 * h * kFloat);
    }
    rows_ = all_rows;
  }

  void operator()(const CellShape& cell) {
    for (CellKernel& kernel : cell_kernels(cell, step_.batch, e_)) {
      action_ = kernel.action;
      add(std::move(kernel.name), kernel.bytes, kernel.calls, kernel.flops);
    }
  }
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
    add(name, rows_ * (n + k) * e_ + n * k * kFloat + (fused && bias ? n * kFloat : 0), 1,
        flops(n, k, rows_));
    if (fused || !bias) return;
    add("column_partials_kernel", rows_ * n * e_ + partials(n));
    add("sum_partials_kernel", partials(n) + n * kFloat);
  }
  // Learned vectors of a norm: a gain, and a layer norm's shift.
  [[nodiscard]] static std::int64_t vectors_of(NormKind kind) {
    return kind == NormKind::layer_norm ? 2 : 1;
  }
  // With a residual two tensors more: the other addend, and the sum that stays.
  void norm(NormKind kind, std::int64_t h, std::int64_t residual = 0) {
    add(kind == NormKind::layer_norm ? "layer_norm_kernel" : "rms_norm_kernel",
        2 * rows_ * h * e_ + vectors_of(kind) * h * e_ + 2 * rows_ * kFloat + residual);
  }
  // What a norm's gradient is added to, in bytes, and whether a mask's numbers are drawn beside.
  struct Beside {
    std::int64_t residual;
    bool drops;
  };
  // Layer norm's of rows that no warp holds is two kernels (exec/cuda/kernels/norms.cu); RMS norm's
  // of rows that no block holds reads them twice, from its caches (exec/cuda/kernels/rms_norm.cu).
  void norm_gradient(NormKind kind, std::int64_t h, Beside beside) {
    const std::int64_t each = rows_ * h * e_, statistics = 2 * rows_ * kFloat,
                       sums = vectors_of(kind) * partials(h);
    // As the launcher decides: rows on 16 bytes, and few enough for registers.
    const bool vectors = h % (16 / e_) == 0;
    const std::int64_t all = 3 * each + h * e_ + statistics + beside.residual;
    if (kind == NormKind::rms_norm) {
      constexpr std::int64_t kMostInABlock = 8192;
      const bool held = vectors && h <= kMostInABlock;
      add(held ? "rms_norm_gradient_kernel" : "wide_rms_norm_gradient_kernel", all + sums);
    } else if (vectors && h <= (beside.drops && e_ == kFloat ? 768 : 1024)) {
      add("layer_norm_gradient_kernel", all + sums);
    } else {
      add("layer_norm_weight_kernel", 2 * each + statistics + sums);
      add("layer_norm_input_kernel", all);
    }
    add("sum_partials_kernel", sums + vectors_of(kind) * h * kFloat);
  }
  // Between the product and the attention: norms of queries' and keys' heads, and their turn to
  // rotary positions.
  void heads(const TransformerShape& shape, bool backward) {
    const std::int64_t d = shape.head_dim, heads = shape.heads + shape.kv_heads,
                       each = rows_ * heads * d * e_, gains = 2 * d;
    const std::int64_t table = shape.rotary ? step_.seq_length * d * kFloat : 0;
    if (!shape.qk_norm) {
      if (shape.rotary) add("turn_heads_kernel", 2 * each + table);
      return;
    }
    const std::int64_t kept_bytes = rows_ * heads * kFloat + table + gains * e_;
    if (!backward) return add("norm_heads_kernel", 3 * each + kept_bytes);
    add("norm_heads_gradient_kernel", 3 * each + kept_bytes + partials(gains));
    add("sum_partials_kernel", partials(gains) + gains * kFloat);
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
    // A product: one head of queries of each head of keys.
    const std::int64_t s = step_.seq_length, d = shape.head_dim, kv = shape.kv_heads,
                       all_scores = shape.heads * s * s, scores = kv * s * s,
                       part = kv * s * d * e_, samples_here = step_.batch,
                       calls = samples_here * (shape.heads / kv);
    const Flops each = flops(kv * s, s, d);
    const bool drops = shape.attention_dropout > 0;  // the masked probabilities are kept apart
    if (!backward) {
      add("product: scores", 2 * part + scores * kFloat, calls, each);
      add("softmax_kernel", all_scores * (kFloat + (drops ? 2 : 1) * e_), samples_here);
      add("product: context", scores * e_ + 2 * part, calls, each);
      return;
    }
    if (drops) add("dropout_kernel", 2 * all_scores * e_, samples_here);
    add("product: values' gradient", scores * e_ + 2 * part, calls, each);
    add("product: probabilities' gradient", 2 * part + scores * kFloat, calls, each);
    add("softmax_gradient_kernel", all_scores * (kFloat + 2 * e_), samples_here);
    add("product: queries' and keys' gradients", scores * e_ + 2 * part, 2 * calls, each);
  }

  [[nodiscard]] static Flops flops(std::int64_t m, std::int64_t n, std::int64_t k) {
    return Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }
  [[nodiscard]] std::int64_t partials(std::int64_t width) const { return partials(rows_, width); }
  [[nodiscard]] static std::int64_t partials(std::int64_t rows, std::int64_t width) {
    return ceil_div(rows, kRowsPerPartial) * width * kFloat;
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
  for (int l = 0; l < part.size(); ++l)
    lister.list(model.layers[static_cast<std::size_t>(l)], part.layer(l).tensors);
  lister.update(model);
  const auto place = [](const KernelWork& kernel) {
    return kernel.action == "F" ? 0 : kernel.action == "B" ? 1 : 2;
  };
  // Stable: within a pass the layers' order is the launches'.
  std::stable_sort(all.begin(), all.end(),
                   [&](const KernelWork& a, const KernelWork& b) { return place(a) < place(b); });
  return all;
}

Seconds least_time(const KernelWork& kernel, const Device& device, Dtype dtype) {
  return std::max(kernel.flops / peak_rate(device, dtype), kernel.bytes / device.memory_bandwidth);
}

}  // namespace weir
