// Rules of optimizers as loops over the elements of one weight.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/update.hpp"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/kernels/vector_math.hpp"

namespace weir::cpu {
namespace {

// Elements of one weight, and their gradient as one or two terms. By value, as the factors are: no
// store of a kernel can change them.
struct Part {
  const float* first;
  const float* second;  // null: there is one
  std::int64_t n;
  float factor;
  float *weight, *state1, *state2;
};

WEIR_INLINE float gradient(const Part& part, std::int64_t i) {
  const float sum = part.second == nullptr ? part.first[i] : part.first[i] + part.second[i];
  return sum * part.factor;
}

struct AdamFactors {
  float rate, shrink;    // shrink: 1 - rate * weight decay of adamw
  float decay;           // adam's weight decay
  float share1, share2;  // 1 - beta, which rounds once, from double: 1.7e-4 off at 0.9999 in fp32
  float epsilon, unbias1, unbias2;
};

WEIR_MULTIVERSION void adamw(AdamFactors a, Part part) {
  float *w = part.weight, *m = part.state1, *v = part.state2;
  for (std::int64_t i = 0; i < part.n; ++i) {
    const float g = gradient(part, i);
    m[i] += a.share1 * (g - m[i]);
    v[i] += a.share2 * (g * g - v[i]);
    w[i] =
        w[i] * a.shrink - a.rate * (m[i] * a.unbias1) / (std::sqrt(v[i] * a.unbias2) + a.epsilon);
  }
}

WEIR_MULTIVERSION void adam(AdamFactors a, Part part) {
  float *w = part.weight, *m = part.state1, *v = part.state2;
  for (std::int64_t i = 0; i < part.n; ++i) {
    const float g = gradient(part, i) + a.decay * w[i];
    m[i] += a.share1 * (g - m[i]);
    v[i] += a.share2 * (g * g - v[i]);
    w[i] -= a.rate * (m[i] * a.unbias1) / (std::sqrt(v[i] * a.unbias2) + a.epsilon);
  }
}

struct SgdFactors {
  float rate, decay, momentum;
};

WEIR_MULTIVERSION void sgd(SgdFactors f, Part part) {
  float *w = part.weight, *velocity = part.state1;
  for (std::int64_t i = 0; i < part.n; ++i) {
    float step = gradient(part, i) + f.decay * w[i];
    // Without momentum there is no state, and the step is the gradient.
    if (velocity != nullptr) step = velocity[i] = f.momentum * velocity[i] + step;
    w[i] -= f.rate * step;
  }
}

// The gradient is looked at once more where the velocity will have carried the weight.
WEIR_MULTIVERSION void sgd_nesterov(SgdFactors f, Part part) {
  float *w = part.weight, *velocity = part.state1;
  for (std::int64_t i = 0; i < part.n; ++i) {
    const float g = gradient(part, i) + f.decay * w[i];
    velocity[i] = f.momentum * velocity[i] + g;
    w[i] -= f.rate * (g + f.momentum * velocity[i]);
  }
}

struct RmspropFactors {
  float rate, decay, momentum, share, epsilon;  // share: 1 - alpha, rounded once
};

WEIR_MULTIVERSION void rmsprop(RmspropFactors f, Part part) {
  float *w = part.weight, *squares = part.state1, *velocity = part.state2;
  for (std::int64_t i = 0; i < part.n; ++i) {
    const float g = gradient(part, i) + f.decay * w[i];
    squares[i] += f.share * (g * g - squares[i]);
    float step = g / (std::sqrt(squares[i]) + f.epsilon);
    if (velocity != nullptr) step = velocity[i] = f.momentum * velocity[i] + step;
    w[i] -= f.rate * step;
  }
}

// One optimizer's numbers at one step, rounded to fp32 once.
class Rule {
 public:
  explicit Rule(const Update& u) : kind_(u.optimizer.kind), nesterov_(u.optimizer.nesterov) {
    const Optimizer& o = u.optimizer;
    const auto rate = static_cast<float>(learning_rate_at(o, u.step - 1));
    const float decay = u.decays ? static_cast<float>(o.weight_decay) : 0.0F;
    const auto epsilon = static_cast<float>(o.epsilon);
    const auto momentum = static_cast<float>(o.momentum);
    const auto step = static_cast<double>(u.step);
    // What does not change within an update is rounded to fp32 once, from double.
    adam_ = {rate,
             1.0F - rate * decay,
             decay,
             static_cast<float>(1 - o.beta1),
             static_cast<float>(1 - o.beta2),
             epsilon,
             static_cast<float>(1 / (1 - std::pow(o.beta1, step))),
             static_cast<float>(1 / (1 - std::pow(o.beta2, step)))};
    sgd_ = {rate, decay, momentum};
    rmsprop_ = {rate, decay, momentum, static_cast<float>(1 - o.alpha), epsilon};
  }

  void apply(const Part& part) const {
    switch (kind_) {
      case OptimizerKind::sgd:
        return nesterov_ ? sgd_nesterov(sgd_, part) : sgd(sgd_, part);
      case OptimizerKind::rmsprop:
        return rmsprop(rmsprop_, part);
      case OptimizerKind::adam:
        return adam(adam_, part);
      case OptimizerKind::adamw:
        return adamw(adam_, part);
      case OptimizerKind::muon:
        break;  // refused before (exec/training/trainable)
    }
  }

 private:
  OptimizerKind kind_;
  bool nesterov_;
  AdamFactors adam_;
  SgdFactors sgd_;
  RmspropFactors rmsprop_;
};

constexpr std::int64_t kBlock = 4096;

// visit(first element, count, first term, second term or null), block by block. More than two
// copies: all but the last are summed into short blocks first, so that one kernel serves every
// number of them. The order is kept: ((first + middle...) + last), as for two.
template <class Visit>
void each_block(std::span<const float* const> gradients, std::int64_t n, Visit visit) {
  float sum[kBlock];
  for (std::int64_t at = 0; at < n; at += kBlock) {
    const std::int64_t count = std::min(kBlock, n - at);
    const float* first = gradients.front() + at;
    const float* second = gradients.size() > 1 ? gradients.back() + at : nullptr;
    if (gradients.size() > 2) {
      std::copy(first, first + count, sum);
      for (const float* middle : gradients.subspan(1, gradients.size() - 2))
        add(middle + at, count, sum);
      first = sum;
    }
    visit(at, count, first, second);
  }
}

// In double: a weight may have so many elements that fp32 would lose them.
WEIR_MULTIVERSION double squares_of(const float* first, const float* second, std::int64_t n) {
  return lane_sum<double>(n, [=](std::int64_t i) {
    const double g = second == nullptr ? first[i] : first[i] + second[i];
    return g * g;
  });
}

}  // namespace

void update(const Update& u, std::span<const float* const> gradients, std::int64_t n, float* weight,
            float* state1, float* state2) {
  const Rule rule(u);
  const auto factor = static_cast<float>(u.factor);
  each_block(gradients, n,
             [&](std::int64_t at, std::int64_t count, const float* first, const float* second) {
               rule.apply({first, second, count, factor, weight + at,
                           state1 == nullptr ? nullptr : state1 + at,
                           state2 == nullptr ? nullptr : state2 + at});
             });
}

double sum_of_squares(std::span<const float* const> gradients, std::int64_t n) {
  double sum = 0;
  each_block(gradients, n,
             [&](std::int64_t, std::int64_t count, const float* first, const float* second) {
               sum += squares_of(first, second, count);
             });
  return sum;
}

}  // namespace weir::cpu
