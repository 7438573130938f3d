// SPDX-License-Identifier: Apache-2.0
// Whole training steps of a spec, layer by layer, beside its dense twin.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "bench.h"
#include "lumen/core/error.h"
#include "lumen/core/memory.h"
#include "lumen/core/text.h"
#include "lumen/train/step_bench.h"
#include "output.h"
#include "session.h"

namespace lumen::cli {
namespace {

constexpr int kRounds = 4;

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

struct Side {
  Side(train::Spec made, Session* session)
      : spec(std::move(made)),
        bench(spec, session->communicator.get(), session->compute) {}
  double samples_per_s() const {
    return static_cast<double>(spec.global_batch()) /
           bench.times().step_seconds;
  }
  train::Spec spec;
  train::StepBench bench;
};

struct LayerTimes {
  double forward = 0;
  double backward = 0;
  double dense = 0;  // both passes of the dense twin
  double all() const { return forward + backward; }
};

LayerTimes TimesOf(const Side& ours, const Side* dense, size_t layer) {
  const train::StepTimes& times = ours.bench.times();
  LayerTimes result{times.forward[layer], times.backward[layer], 0};
  if (dense) {
    result.dense = dense->bench.times().forward[layer] +
                   dense->bench.times().backward[layer];
  }
  return result;
}

constexpr char kRow[] =
    "  {:<28} {:>7} {:>9} {:>9} {:>6} {:>10} {:>9} {:>9} {:>9}\n";

// A line per layer with weights, the others together by type.
Json SayLayers(const Side& ours, const Side* dense) {
  const train::Plan& plan = ours.bench.plan();
  const double step = ours.bench.times().step_seconds;
  Say(fmt::format(kRow, "layer", "density", "fwd ms", "bwd ms", "time", "MFLOP",
                  "possible", "realised", "part"));
  Json layers = Json::Array();
  std::map<std::string, LayerTimes> others;
  double accounted = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const train::LayerPlan& layer = plan.layers[i];
    const LayerTimes times = TimesOf(ours, dense, i);
    accounted += times.all();
    const double possible = Ratio(static_cast<double>(layer.flops_dense),
                                  static_cast<double>(layer.flops_executed));
    const double realised = Ratio(times.dense, times.all());
    Json json = Json::Object();
    json.Set("name", layer.name);
    json.Set("type", layer.type);
    json.Set("density", Ratio(static_cast<double>(layer.nnz),
                              static_cast<double>(layer.parameters)));
    json.Set("forward_ms", 1e3 * times.forward);
    json.Set("backward_ms", 1e3 * times.backward);
    json.Set("dense_ms", dense ? Json(1e3 * times.dense) : Json());
    json.Set("flops_executed", layer.flops_executed);
    json.Set("flops_dense", layer.flops_dense);
    json.Set("possible", possible);
    json.Set("realised", dense ? Json(realised) : Json());
    layers.Append(json);
    if (layer.flops_dense == 0) {
      LayerTimes& sum = others[layer.type];
      sum.forward += times.forward;
      sum.backward += times.backward;
      sum.dense += times.dense;
      continue;
    }
    const auto of = [&](double value) {
      return dense && possible > 0 ? fmt::format("{:.2f}x", value) : "";
    };
    Say(fmt::format(
        kRow, layer.name,
        fmt::format("{:.3g} %", 100 * json.at("density").number()),
        fmt::format("{:.3f}", 1e3 * times.forward),
        fmt::format("{:.3f}", 1e3 * times.backward),
        fmt::format("{:.1f} %", 100 * times.all() / step),
        fmt::format("{:.3g}", 1e-6 * static_cast<double>(layer.flops_executed)),
        fmt::format("{:.2f}x", possible), of(realised),
        of(Ratio(realised, possible))));
  }
  for (const auto& [type, times] : others) {
    Say(fmt::format(
        kRow, "all " + type, "", fmt::format("{:.3f}", 1e3 * times.forward),
        fmt::format("{:.3f}", 1e3 * times.backward),
        fmt::format("{:.1f} %", 100 * times.all() / step), "", "",
        dense ? fmt::format("{:.2f}x", Ratio(times.dense, times.all())) : "",
        ""));
  }
  const double rest = std::max(0.0, step - accounted);
  Say(fmt::format(kRow, "loss, exchange, update, data", "", "", "",
                  fmt::format("{:.1f} %", 100 * rest / step), "", "", "", ""));
  return layers;
}

// The same spec with every weight; null when it would not fit in memory.
std::unique_ptr<Side> NewDenseTwin(const CommandLine& line, Session* session) {
  std::vector<std::string> overrides = line.overrides;
  overrides.push_back("model.sparsity.method=dense");
  train::Spec spec = train::LoadSpec(line.arguments[1], overrides);
  const train::Plan plan = train::NewPlan(spec, session->communicator->ranks(),
                                          session->compute.parallel.threads());
  const int64_t memory = AvailableMemoryBytes();
  if (plan.memory_bytes() > memory) {
    Say(fmt::format("the dense twin needs {}, more than the {} there are\n",
                    FormatBytes(plan.memory_bytes()), FormatBytes(memory)));
    return nullptr;
  }
  return std::make_unique<Side>(std::move(spec), session);
}

}  // namespace

int RunBenchStep(const CommandLine& line) {
  if (line.arguments.size() < 2) {
    throw SpecError("usage: lumen bench step SPEC [path=value ...]");
  }
  return RunTogether(line, [&](Session* session) {
    const int64_t steps = 3;
    const bool speaks = session->communicator->rank() == 0;
    Side ours(train::LoadSpec(line.arguments[1], line.overrides), session);
    std::unique_ptr<Side> dense;
    if (ours.spec.model().at("sparsity").at("method").text() != "dense") {
      dense = NewDenseTwin(line, session);
    }
    for (int round = 0; round < kRounds; ++round) {
      ours.bench.Run(steps);
      if (dense) dense->bench.Run(steps);
    }
    if (!speaks) return 0;
    Say(
        fmt::format("{}: {:.4g} samples/s, {:.4g} ms a step of {} ({}, {} of "
                    "{})\n",
                    ours.spec.name, ours.samples_per_s(),
                    1e3 * ours.bench.times().step_seconds,
                    CountOf(ours.spec.global_batch(), "sample"),
                    sparse::IsaName(session->compute.kernels->isa),
                    CountOf(session->communicator->ranks(), "rank"),
                    CountOf(session->compute.parallel.threads(), "thread")));
    if (dense) {
      Say(fmt::format("dense: {:.4g} samples/s; {:.2f} times that\n",
                      dense->samples_per_s(),
                      ours.samples_per_s() / dense->samples_per_s()));
    }
    Json result = Json::Object();
    result.Set("spec", ours.spec.name);
    result.Set("isa",
               std::string(sparse::IsaName(session->compute.kernels->isa)));
    result.Set("ranks", session->communicator->ranks());
    result.Set("threads", session->compute.parallel.threads());
    result.Set("step_ms", 1e3 * ours.bench.times().step_seconds);
    result.Set("samples_per_s", ours.samples_per_s());
    result.Set("dense_samples_per_s",
               dense ? Json(dense->samples_per_s()) : Json());
    result.Set(
        "ratio",
        dense ? Json(ours.samples_per_s() / dense->samples_per_s()) : Json());
    result.Set("layers", SayLayers(ours, dense.get()));
    WriteBenchResults(line, result);
    return 0;
  });
}

}  // namespace lumen::cli
