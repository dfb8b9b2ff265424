// `weir reproduce kernel-rates`: products, fused attention and streams by the kernel model with a
// few constants a device, fitted without the rows they are held against.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/rates/kernel_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "costmodel/layers/kernel_rates.hpp"
#include "tools/reproduce/rates/rate_rows.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {
namespace {

// A device by its datasheet, with tiles and no constants.
std::map<std::string, Device> devices(const Publications& published) {
  std::map<std::string, Device> all;
  for (const PublishedRow& row : published.table("rates_devices.csv")) {
    Device device;
    device.name = row.text("device");
    device.multiprocessors = row.integer("multiprocessors");
    device.peak_bf16 = FlopsPerSecond(row.number("peak_tflops") * 1e12);
    if (const auto fp8 = row.printed_or_none("peak_fp8_tflops"))
      device.peak_fp8 = FlopsPerSecond(fp8->value * 1e12);
    device.memory_bandwidth = BytesPerSecond(row.number("bandwidth_GBps") * 1e9);
    KernelModel& kernels = device.kernels.emplace();
    kernels.tile_rows = 128;
    kernels.tile_columns = 256;
    // No constants yet: a fit finds them.
    kernels.products.efficiency = 1;
    kernels.bandwidth_efficiency = 0.8;  // of the bytes of a product, which seldom count
    kernels.floor = Seconds(3e-6);
    all.emplace(device.name, device);
  }
  return all;
}

// ---- products

struct ProductRow {
  const Device* device;
  MatmulShape shape;
  ProductForm form;
  Printed tflops;
  double seconds;
  std::string group;  // powers of two between which the depth lies
  std::string fault;  // why no fit sees it
};

double flops(const MatmulShape& x) { return 2.0 * static_cast<double>(x.batch * x.m * x.n * x.k); }

// A card that computes for half a millisecond at a time and then rests runs faster than one that
// trains: B200's rows of the same shapes lie at 0.64 of the peak below, at 0.48 above.
constexpr double kSustained_s = 0.5e-3;

std::string fault_of(const ProductRow& row) {
  if (row.device->name == "B200" && row.seconds < kSustained_s)
    return "a burst shorter than 0.5 ms: above what the card holds at its power limit";
  if (row.device->name == "H800" && row.shape.m < 1024)
    return "fewer than 1024 rows: bound by memory, no shape of training";
  return "";
}

std::vector<ProductRow> product_rows(const Publications& published,
                                     const std::map<std::string, Device>& all) {
  std::vector<ProductRow> rows;
  for (const PublishedRow& row : published.table("rates_products.csv")) {
    const bool fp8 = row.text("precision") == "fp8";
    const bool added = row.text("target") == "accumulated";
    const MatmulShape shape{row.integer("m"), row.integer("n"), row.integer("k"),
                            row.integer("batch")};
    const Printed tflops = row.printed("tflops");
    // Products of like depth form a group, which is forecast by constants fitted without it.
    ProductRow product{&named(all, row, "device"),
                       shape,
                       {fp8 ? ProductPrecision::fp8 : ProductPrecision::plan,
                        added ? ProductTarget::accumulated : ProductTarget::fresh},
                       tflops,
                       flops(shape) / (tflops.value * 1e12),
                       fmt::format("k {}", std::bit_floor(static_cast<std::uint64_t>(shape.k))),
                       ""};
    // A row that contradicts itself teaches nothing, and is shown as an anomaly.
    product.fault = fault_of(product);
    rows.push_back(std::move(product));
  }
  return rows;
}

ProductRates product_rates(std::span<const double> x) { return {x[0], x[1], x[2]}; }

RateFit<ProductRow> product_fit(const Device& of) {
  return {[device = of](const ProductRow& row, std::span<const double> x) mutable {
            device.kernels->products = product_rates(x);
            return matmul_time(row.shape, device, Dtype::bf16, row.form).count();
          },
          {0.7, 0.9, 0.8},
          {1, 1, 4}};
}

// ---- fused attention

enum class AttentionPass : std::uint8_t { forward, backward, both };
constexpr Names<AttentionPass, 3> kPassNames{{{AttentionPass::forward, "forward"},
                                              {AttentionPass::backward, "backward"},
                                              {AttentionPass::both, "both"}}};

struct AttentionRow {
  std::string device, library;
  AttentionPass pass;
  FusedCore core;  // d: of keys; the values' may differ
  std::int64_t values = 0;
  Printed tflops;
  double seconds;
  std::string group;  // the length
};

// rows x keys x (numbers of keys and of values that a pass multiplies) a head.
double core_flops(const FusedCore& core, std::int64_t values, AttentionPass pass) {
  const auto pairs = 2.0 * static_cast<double>(core.heads * core.rows * core.keys);
  const double forward = pairs * static_cast<double>(core.d + values);
  // The scores again, and the gradients of queries and keys; of the probabilities and values.
  const double backward = pairs * static_cast<double>(3 * core.d + 2 * values);
  const double all = pass == AttentionPass::forward    ? forward
                     : pass == AttentionPass::backward ? backward
                                                       : forward + backward;
  return core.causal ? all / 2 : all;
}

std::vector<AttentionRow> attention_rows(const Publications& published) {
  std::vector<AttentionRow> rows;
  for (const PublishedRow& row : published.table("rates_attention.csv")) {
    const auto pass = named(kPassNames, row.text("pass"));
    if (!pass) row.fail("pass", "expected forward, backward or both");
    FusedCore core;
    core.rows = core.keys = row.integer("length");
    core.d = row.integer("d");
    core.heads = row.integer("heads");
    core.causal = row.text("causal") == "yes";
    const std::int64_t values = row.integer("dv");
    const Printed tflops = row.printed("tflops");
    rows.push_back({row.text("device"), row.text("library"), *pass, core, values, tflops,
                    core_flops(core, values, *pass) / (tflops.value * 1e12), row.text("length")});
  }
  return rows;
}

// One pass; where values have fewer numbers than keys, as many products of the mean.
double pass_time(const AttentionRow& row, bool backward, const Device& device) {
  FusedCore core = row.core;
  core.products = backward ? 5 : 2;
  core.d = backward ? (3 * row.core.d + 2 * row.values) / 5 : (row.core.d + row.values) / 2;
  return fused_core_time(core, device, Dtype::bf16).count();
}

double attention_time(const AttentionRow& row, const AttentionRates& rates, Device& device) {
  device.kernels->attention[AttentionLibrary::flash2] = rates;
  double time = 0;
  if (row.pass != AttentionPass::backward) time += pass_time(row, false, device);
  if (row.pass != AttentionPass::forward) time += pass_time(row, true, device);
  return time;
}

// Rows of a library on a device; what they cannot tell is another set's.
struct AttentionSet {
  std::string device, library;
  std::string backward_of = {};  // set whose backward over forward holds here; empty: fitted
  std::string head_of = {};      // set whose head size holds here; empty: fitted
  [[nodiscard]] std::string name() const { return device + " " + library; }
};

// In an order in which what is taken over is there. The figure of FlashAttention 3 has no backward;
// A100's and the first
// FlashAttention's have only both passes together; the table of H200 one head size.
std::vector<AttentionSet> attention_sets() {
  return {{"H100", "flash2", "", ""},
          {"A100-SXM", "flash2", "H100 flash2", ""},
          {"H100", "flash1", "H100 flash2", ""},
          {"A100-SXM", "flash1", "H100 flash2", ""},
          {"H100", "flash3", "H100 flash2", ""},
          {"H100", "cudnn", "H100 flash2", ""},
          {"H200", "cudnn", "", "H100 cudnn"},
          {"GB200", "cudnn", "", ""},
          {"GB300", "cudnn", "", ""}};
}

// Constants of a set: forward, keys, and backward and head where they are its own.
struct AttentionConstants {
  std::optional<double> ratio, head;

  [[nodiscard]] AttentionRates rates(std::span<const double> x) const {
    std::size_t next = 2;
    AttentionRates rates{.forward = x[0], .keys = x[1]};
    rates.backward = ratio ? x[0] * *ratio : x[next++];
    rates.head = head ? *head : x[next];
    return rates;
  }
  [[nodiscard]] std::vector<double> start() const {
    std::vector<double> x{0.6, 150};
    if (!ratio) x.push_back(0.5);
    if (!head) x.push_back(20);
    return x;
  }
};

AttentionConstants constants_of(const AttentionSet& set,
                                const std::map<std::string, FittedAttention>& before) {
  AttentionConstants constants;
  if (!set.backward_of.empty()) {
    const AttentionRates& other = before.at(set.backward_of).rates;
    constants.ratio = other.backward / other.forward;
  }
  if (!set.head_of.empty()) constants.head = before.at(set.head_of).rates.head;
  return constants;
}

RateFit<AttentionRow> attention_fit(const Device& of, const AttentionConstants& constants) {
  return {[device = of, constants](const AttentionRow& row, std::span<const double> x) mutable {
            return attention_time(row, constants.rates(x), device);
          },
          constants.start()};
}

std::vector<const AttentionRow*> rows_of(const AttentionSet& set,
                                         const std::vector<AttentionRow>& all) {
  std::vector<const AttentionRow*> rows;
  for (const AttentionRow& row : all) {
    if (row.device == set.device && row.library == set.library) rows.push_back(&row);
  }
  return rows;
}

// ---- streams

struct StreamRow {
  std::string device, backend;
  std::string what;
  double bytes;
  Printed gbps;
  double seconds;
  std::string group;  // the width
};

// Norms by one fused kernel, forward: the plainest stream that was measured.
std::vector<StreamRow> stream_rows(const Publications& published) {
  constexpr int kNarrow = 1024;  // rows of fewer numbers are normalised a few at a time
  std::vector<StreamRow> rows;
  for (const PublishedRow& row : published.table("rates_streams.csv")) {
    if (row.text("backend") != "cudnn" || row.integer("columns") < kNarrow) continue;
    const Printed rate = row.printed("forward_GBps");
    const double seconds = row.number("forward_us") * 1e-6;
    rows.push_back(
        {row.text("device"), row.text("backend"),
         fmt::format("{} {} x {}", row.text("norm"), row.text("rows"), row.text("columns")),
         rate.value * 1e9 * seconds, rate, seconds, row.text("columns")});
  }
  return rows;
}

RateFit<StreamRow> stream_fit(const Device& of) {
  return {[device = of](const StreamRow& row, std::span<const double> x) mutable {
            device.kernels->bandwidth_efficiency = x[0];
            device.kernels->start = Seconds(x[1] * 1e-6);
            device.kernels->floor = Seconds(0);
            return stream_time(Bytes(static_cast<std::int64_t>(row.bytes)), device).count();
          },
          {0.8, 2.0}};
}

// ---- together

template <class Row>
std::vector<const Row*> pointers(const std::vector<Row>& all,
                                 const std::function<bool(const Row&)>& wanted) {
  std::vector<const Row*> rows;
  for (const Row& row : all) {
    if (wanted(row)) rows.push_back(&row);
  }
  return rows;
}

template <class Row>
std::set<std::string> names(const std::vector<Row>& rows, std::string (*name)(const Row&)) {
  std::set<std::string> all;
  for (const Row& row : rows) all.insert(name(row));
  return all;
}

std::string product_device(const ProductRow& row) { return row.device->name; }
std::string stream_device(const StreamRow& row) { return row.device; }

std::string product_text(const ProductRow& row) {
  return fmt::format("{} {}{} {} x {} x {}{}", row.device->name,
                     row.form.precision == ProductPrecision::fp8 ? "FP8" : "bf16",
                     row.form.target == ProductTarget::accumulated ? " into fp32" : "", row.shape.m,
                     row.shape.n, row.shape.k,
                     row.shape.batch > 1 ? fmt::format(", {} of them", row.shape.batch) : "");
}

std::string attention_text(const AttentionRow& row) {
  return fmt::format("{} {}, {} of {}, {} heads of {}{}", row.device, row.library,
                     name_of(kPassNames, row.pass), row.core.rows, row.core.heads, row.core.d,
                     row.core.causal ? ", causal" : "");
}

void note(CaseResult& result, std::string_view what, std::string constants,
          const RateErrors& errors) {
  result.notes.push_back(
      fmt::format("{}: {}; {} rows, each group left out of the fit in turn: mean |error| of the "
                  "time {:.1f} %, worst {:.1f} %.",
                  what, constants, errors.rows, errors.mean() * 100, errors.worst * 100));
}

std::string product_constants(const ProductRates& rates) {
  return fmt::format("efficiency {:.4f}, half tile {:.4f}, exposed output {:.4f}", rates.efficiency,
                     rates.half_tile, rates.exposed_output);
}

std::string attention_constants(const AttentionRates& rates) {
  return fmt::format("forward {:.4f}, backward {:.4f}, keys {:.1f}, head {:.1f}", rates.forward,
                     rates.backward, rates.keys, rates.head);
}

void add_products(const Publications& published, const std::map<std::string, Device>& all,
                  const FittedKernels& fitted, CaseResult& result) {
  const std::vector<ProductRow> rows = product_rows(published, all);
  for (const std::string& name : names(rows, product_device)) {
    const auto kept = pointers<ProductRow>(
        rows, [&](const ProductRow& row) { return row.device->name == name && row.fault.empty(); });
    const RateFit<ProductRow> fit = product_fit(all.at(name));
    // Each group of rows by constants that were fitted without it.
    const std::vector<double> times = left_out_times(fit, kept);
    RateErrors errors;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      errors.add(times[i] / kept[i]->seconds - 1);
      result.add(Role::predicted, {product_text(*kept[i]), "product, TFLOP/s", kept[i]->tflops,
                                   flops(kept[i]->shape) / times[i] / 1e12});
    }
    const FittedProducts& all_rows = fitted.products.at(name);
    // Printed are the constants of all rows: those a user gets.
    note(result, name + " products", product_constants(all_rows.rates), errors);
    const ProductRates& r = all_rows.rates;
    const std::vector<double> x{r.efficiency, r.half_tile, r.exposed_output};
    // Faulty rows are shown beside what the model says of them.
    for (const ProductRow& row : rows) {
      if (row.device->name != name || row.fault.empty()) continue;
      result.add_anomaly({product_text(row), "product, TFLOP/s", row.tflops,
                          flops(row.shape) / fit.time(row, x) / 1e12},
                         row.fault);
    }
  }
}

void add_attention(const Publications& published, const std::map<std::string, Device>& all,
                   const FittedKernels& fitted, CaseResult& result) {
  const std::vector<AttentionRow> rows = attention_rows(published);
  const auto line = [&](const AttentionRow& row, double time) {
    result.add(Role::predicted, {attention_text(row), "attention, TFLOP/s", row.tflops,
                                 core_flops(row.core, row.values, row.pass) / time / 1e12});
    return time / row.seconds - 1;
  };
  for (const AttentionSet& set : attention_sets()) {
    const auto kept = rows_of(set, rows);
    const AttentionConstants constants = constants_of(set, fitted.attention);
    const auto times = left_out_times(attention_fit(all.at(set.device), constants), kept);
    RateErrors errors;
    for (std::size_t i = 0; i < kept.size(); ++i) errors.add(line(*kept[i], times[i]));
    note(result, set.name() + " attention",
         attention_constants(fitted.attention.at(set.name()).rates), errors);
  }
  // Rows of other devices and of a library that is not named, by constants that never saw them.
  for (const auto& [device, constants] :
       {std::pair{"A100-PCIe", "A100-SXM flash2"}, std::pair{"B200", "GB200 cudnn"}}) {
    Device shown = all.at(device);
    RateErrors errors;
    for (const AttentionRow& row : rows) {
      if (row.device != device) continue;
      errors.add(line(row, attention_time(row, fitted.attention.at(constants).rates, shown)));
    }
    note(result, fmt::format("{} attention, by the constants of {}", device, constants),
         "none of its own", errors);
  }
}

void add_streams(const Publications& published, const std::map<std::string, Device>& all,
                 const FittedKernels& fitted, CaseResult& result) {
  const std::vector<StreamRow> rows = stream_rows(published);
  for (const std::string& name : names(rows, stream_device)) {
    const auto kept =
        pointers<StreamRow>(rows, [&](const StreamRow& row) { return row.device == name; });
    const auto times = left_out_times(stream_fit(all.at(name)), kept);
    RateErrors errors;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      errors.add(times[i] / kept[i]->seconds - 1);
      result.add(Role::predicted, {name + " " + kept[i]->what, "stream, GB/s", kept[i]->gbps,
                                   kept[i]->bytes / times[i] / 1e9});
    }
    const FittedStreams& f = fitted.streams.at(name);
    note(result, name + " streams",
         fmt::format("efficiency {:.4f}, start {:.2f} us", f.efficiency, f.start.count() * 1e6),
         errors);
  }
}

}  // namespace

FittedKernels fit_kernels(const Publications& published) {
  const std::map<std::string, Device> all = devices(published);
  FittedKernels fitted;
  const std::vector<ProductRow> products = product_rows(published, all);
  // As a user gets them: fitted to all rows.
  for (const std::string& name : names(products, product_device)) {
    const auto kept = pointers<ProductRow>(products, [&](const ProductRow& row) {
      return row.device->name == name && row.fault.empty();
    });
    fitted.products[name] = {product_rates(product_fit(all.at(name)).constants(kept)),
                             static_cast<int>(kept.size())};
  }
  const std::vector<AttentionRow> attention = attention_rows(published);
  for (const AttentionSet& set : attention_sets()) {
    const auto kept = rows_of(set, attention);
    // A set may take constants of one that was fitted before it.
    const AttentionConstants constants = constants_of(set, fitted.attention);
    fitted.attention[set.name()] = {
        constants.rates(attention_fit(all.at(set.device), constants).constants(kept)),
        static_cast<int>(kept.size())};
  }
  const std::vector<StreamRow> streams = stream_rows(published);
  for (const std::string& name : names(streams, stream_device)) {
    const auto kept =
        pointers<StreamRow>(streams, [&](const StreamRow& row) { return row.device == name; });
    const std::vector<double> x = stream_fit(all.at(name)).constants(kept);
    fitted.streams[name] = {x[0], Seconds(x[1] * 1e-6), static_cast<int>(kept.size())};
  }
  return fitted;
}

CaseResult reproduce_kernel_rates(const Publications& published) {
  const std::map<std::string, Device> all = devices(published);
  const FittedKernels fitted = fit_kernels(published);
  CaseResult result;
  add_products(published, all, fitted, result);
  add_attention(published, all, fitted, result);
  add_streams(published, all, fitted, result);
  result.notes.push_back(
      "Fits take Huber's loss of the logarithm of the time over the measured one; groups left out "
      "are products between two powers of two in depth, attention of one length, norms of one "
      "width.");
  return result;
}

}  // namespace weir
