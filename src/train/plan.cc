// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/plan.h"

#include <algorithm>
#include <cmath>

#include "lumen/comm/exchange.h"
#include "lumen/core/error.h"
#include "lumen/core/memory.h"
#include "lumen/core/text.h"
#include "lumen/data/dataset.h"
#include "lumen/data/loader.h"
#include "lumen/nn/model.h"
#include "lumen/train/optimizer.h"
#include "mask_prune.h"
#include "mask_update.h"
#include "model_build.h"
#include "model_state.h"
#include "shard_statistics.h"
#include "start.h"

namespace lumen::train {
namespace {

// Program, libraries, MPI's shared memory and thread stacks, measured as the
// peak of a run with a one-weight model (src/train/README.md).
constexpr int64_t kRuntimeBytes = int64_t{40} << 20;

// A cautious guess at what sparse kernels reach on one core of a current
// server.
constexpr double kFlopsPerSecondAndThread = 3e10;

// `density`: share of the values of a sample that are there.
void AddLayers(const nn::Graph& graph, double density, Plan* plan) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const nn::Node& node = graph.nodes[i];
    LayerPlan layer{.name = node.name, .type = node.type};
    layer.output_shape = graph.OutputShape(static_cast<int>(i)).ToString();
    for (int p = 0; p < node.parameters; ++p) {
      const nn::ParameterDecl& declaration =
          graph.declarations[static_cast<size_t>(node.first_parameter + p)];
      layer.parameters += declaration.dense_size();
      layer.nnz += declaration.nnz;
    }
    const auto index = static_cast<int>(i);
    layer.flops_executed = kFlopsPerMultiplyAdd * graph.MultiplyAdds(index);
    layer.flops_dense = kFlopsPerMultiplyAdd * graph.DenseMultiplyAdds(index);
    if (node.layer->reads() == SampleKind::kSparse) {
      layer.flops_executed =
          std::llround(density * static_cast<double>(layer.flops_executed));
    }
    plan->parameters += layer.parameters;
    plan->nnz += layer.nnz;
    plan->layers.push_back(std::move(layer));
  }
}

int64_t WeightBytes(const nn::Graph& graph, LaneLayout layout) {
  int64_t bytes = 0;
  for (const nn::ParameterDecl& declaration : graph.declarations) {
    bytes += 4 * declaration.nnz;
  }
  for (const nn::Node& node : graph.nodes) {
    for (int p = 0; p < node.parameters; ++p) {
      const nn::ParameterDecl& declaration =
          graph.declarations[static_cast<size_t>(node.first_parameter + p)];
      if (!declaration.is_sparse()) continue;
      bytes += sparse::KernelRows::MemoryBytes(
          node.layer->addressing(layout.lanes), declaration.nnz);
    }
  }
  return bytes;
}

std::vector<int64_t> TensorSizes(const nn::Graph& graph) {
  std::vector<int64_t> sizes;
  for (const nn::ParameterDecl& declaration : graph.declarations) {
    sizes.push_back(declaration.nnz);
  }
  return sizes;
}

constexpr char kActivations[] = "activations";

// Decides what is computed again and adds the activations to the memory.
// REQUIRES: all other memory is planned.
void PlanRecompute(const Spec& spec, const nn::Graph& graph, Plan* plan) {
  const std::string& how = spec.memory().at("recompute").text();
  const Json& limit = spec.memory().at("limit");
  if (how != "none") {
    int64_t most = 0;  // block: as little as can be
    if (how == "auto") {
      most = limit.is_null() ? AvailableMemoryBytes() / plan->ranks
                             : limit.integer();
      most = std::max<int64_t>(0, most - plan->memory_bytes());
    }
    plan->cuts = nn::ChooseCuts(graph, plan->layout, most);
    plan->flops_again =
        2 * nn::MultiplyAddsAgain(graph, plan->layout, plan->cuts);
  }
  for (MemoryItem& item : plan->memory) {
    if (item.name != kActivations) continue;
    item.bytes = nn::ArenaBytes(graph, plan->layout, {.cuts = plan->cuts});
  }
}

// What would make the plan fit, beside a higher limit.
std::string WouldFit(const Spec& spec, const nn::Graph& graph, const Plan& plan,
                     int64_t limit) {
  std::string text =
      "raise the limit by " + FormatBytes(plan.memory_bytes() - limit);
  int64_t activations = 0;
  for (const MemoryItem& item : plan.memory) {
    if (item.name == kActivations) activations = item.bytes;
  }
  const int64_t rest = plan.memory_bytes() - activations;
  if (spec.memory().at("recompute").text() != "auto") {
    const int64_t least = nn::ArenaBytes(
        graph, plan.layout, {.cuts = nn::ChooseCuts(graph, plan.layout, 0)});
    if (rest + least <= limit) {
      return text + ", or set memory.recompute=auto (at least " +
             FormatBytes(rest + least) + ")";
    }
  }
  return text +
         ", or lower the batch of a shard (more train.shards) or the density, "
         "or use more ranks";
}

std::string Advice(const Plan& plan) {
  const auto largest = std::max_element(
      plan.memory.begin(), plan.memory.end(),
      [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return "the largest part is " + largest->name + " (" +
         FormatBytes(largest->bytes) + ")";
}

}  // namespace

int64_t Plan::memory_bytes() const {
  int64_t bytes = 0;
  for (const MemoryItem& item : memory) bytes += item.bytes;
  return bytes;
}

Plan NewPlan(const Spec& spec, int ranks, int threads) {
  if (ranks > spec.shards()) {
    throw SpecError(
        spec.train().at("shards").where() + ": train.shards: " +
        std::to_string(spec.shards()) + " for " + std::to_string(ranks) +
        " ranks; expected at least one shard per rank; set train.shards=" +
        std::to_string(ranks) + " or start at most " +
        std::to_string(spec.shards()) + " ranks (-np)");
  }
  const data::DatasetInfo info = data::GetDatasetInfo(spec.data());
  // Mistakes in data.normalize and data.augment show before the run starts.
  data::NewTrainingTransform(spec.data(), info.shape, spec.seed());
  const SampleKind kind = data::KindOfSamples(spec.data());
  const nn::Graph graph =
      nn::NewGraph(spec.model(), info.shape, info.classes, kind);
  if (info.has_label_sets && graph.output().channels != info.classes) {
    throw SpecError(spec.model().where() + ": model.layers: one output; " +
                    "expected one per class: data.labels is several");
  }
  Plan plan;
  plan.ranks = ranks;
  plan.shards = spec.shards();
  plan.layout = nn::LayoutFor(graph, spec.shard_batch());
  AddLayers(graph, info.density, &plan);
  plan.steps_per_epoch =
      data::SampleOrder(info.train_samples, spec.global_batch(), spec.shards(),
                        spec.seed(), data::Order::kFile, data::Tail::kDrop)
          .steps_per_epoch();
  plan.total_steps = TotalSteps(spec, plan.steps_per_epoch);

  const std::vector<int64_t> sizes = TensorSizes(graph);
  const Json& clip = spec.train().at("clip_norm");
  const comm::ExchangeMemory exchange =
      comm::PlanExchange({.shards = spec.shards(),
                          .parameters = plan.nnz,
                          .buckets = BucketsOf(spec, sizes),
                          .spec = spec.exchange(),
                          .clip_norm = clip.is_null() ? 0.0 : clip.number()},
                         ranks);
  const int64_t optimizer_floats =
      OptimizerStateFloats(spec.train().at("optimizer"));
  const int64_t average_floats = spec.train().at("ema").is_null() ? 0 : 1;
  const int64_t hosted = (spec.shards() + ranks - 1) / ranks;
  const int64_t statistics = graph.statistics_size();
  plan.memory = {
      {"weights and masks",
       WeightBytes(graph, plan.layout) + 4 * statistics +
           ShardStatistics::MemoryBytes(statistics, hosted)},
      {"optimizer", 4 * optimizer_floats * plan.nnz},
      {"averaged weights", 4 * average_floats * plan.nnz},
      {"exchange", exchange.bytes},
      {kActivations, 0},
      {"mask updates",
       MaskUpdates::MemoryBytes(spec, graph) +
           MaskPruning::MemoryBytes(
               spec, graph,
               optimizer_floats + average_floats +
                   (exchange.shard_floats * hosted + exchange.owner_floats) /
                       std::max<int64_t>(1, plan.nnz))},
      {"batches",
       kind == SampleKind::kSparse
           ? data::Loader::SparseMemoryBytes(info.row_sizes, plan.layout)
           : data::Loader::MemoryBytes(info.shape, info.targets, plan.layout)},
      {"data set", info.memory_bytes},
      {"checkpoint snapshot",
       Snapshot::MemoryBytes(plan.nnz, optimizer_floats + average_floats,
                             (exchange.shard_floats + statistics) * hosted,
                             exchange.owner_floats)},
      {"program and libraries", kRuntimeBytes},
  };
  PlanRecompute(spec, graph, &plan);
  plan.wire_bytes_step = exchange.wire_bytes_step;
  plan.wire_bytes_dense_step =
      8.0 * (ranks - 1) * static_cast<double>(plan.parameters);
  auto flops = static_cast<double>(plan.flops_again);
  for (const LayerPlan& layer : plan.layers) {
    flops += static_cast<double>(layer.flops_executed);
  }
  plan.step_seconds = flops * static_cast<double>(spec.shard_batch() * hosted) /
                      (kFlopsPerSecondAndThread * threads);

  if (plan.layout.lane_use() < 0.8) {
    plan.warnings.push_back(
        "a shard's " + std::to_string(plan.layout.samples) +
        " samples fill only " +
        std::to_string(std::lround(100 * plan.layout.lane_use())) +
        " % of the lanes; make train.global_batch / train.shards a multiple of "
        "16");
  }
  const Json& limit = spec.memory().at("limit");
  if (!limit.is_null() && plan.memory_bytes() > limit.integer()) {
    throw SpecError(limit.where() + ": memory.limit: a rank needs " +
                    FormatBytes(plan.memory_bytes()) + "; allowed " +
                    FormatBytes(limit.integer()) + "; " + Advice(plan) + "; " +
                    WouldFit(spec, graph, plan, limit.integer()));
  }
  return plan;
}

}  // namespace lumen::train
