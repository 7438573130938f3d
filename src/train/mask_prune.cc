// SPDX-License-Identifier: Apache-2.0
#include "mask_prune.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "smallest.h"

namespace lumen::train {
namespace {

using Kept = std::vector<std::vector<int64_t>>;  // entries per tensor

// Every flat array [parameters] of this rank, in a fixed order.
std::vector<std::span<float>> FlatArrays(Start* start) {
  std::vector<std::span<float>> arrays;
  for (const auto& state : start->optimizer->State()) {
    arrays.push_back(state.values);
  }
  if (!start->average.values().empty()) {
    arrays.push_back(start->average.values());
  }
  for (int shard : start->hosted_shards) {
    for (const auto& state : start->exchange->ShardState(shard)) {
      arrays.push_back(state.values);
    }
  }
  return arrays;
}

std::vector<float> Compacted(std::span<const float> flat,
                             const nn::ParameterSet& parameters,
                             const Kept& kept) {
  std::vector<float> left;
  for (size_t t = 0; t < kept.size(); ++t) {
    const int64_t offset = parameters.tensors()[t].offset;
    for (int64_t entry : kept[t]) {
      left.push_back(flat[static_cast<size_t>(offset + entry)]);
    }
  }
  return left;
}

// All but the `count` smallest.
std::vector<int64_t> AllButSmallest(std::span<const float> values,
                                    int64_t count) {
  std::vector<int64_t> all(values.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  if (count <= 0) return all;
  const std::vector<int64_t> dropped = SmallestEntries(values, count);
  std::vector<int64_t> kept;
  std::set_difference(all.begin(), all.end(), dropped.begin(), dropped.end(),
                      std::back_inserter(kept));
  return kept;
}

}  // namespace

MaskPruning::MaskPruning(const Spec& spec, int64_t total_steps) : spec_(spec) {
  const Json& sparsity = spec.model().at("sparsity");
  const auto share = [&](const char* key) {
    return static_cast<int64_t>(sparsity.at(key).number() *
                                static_cast<double>(total_steps));
  };
  active_ = sparsity.at("method").text() == "gmp";
  every_ = sparsity.at("update_every").integer();
  start_step_ = share("start_at");
  stop_step_ = std::max(share("stop_at"), start_step_ + 1);
}

bool MaskPruning::Due(int64_t step) const {
  // The first one at or after the stop reaches the final density.
  return active_ && step > 0 && step % every_ == 0 && step >= start_step_ &&
         step - every_ < stop_step_;
}

double MaskPruning::Density(int64_t step) const {
  const Json& sparsity = spec_.model().at("sparsity");
  const double first = sparsity.at("initial_density").number();
  const double last = sparsity.at("density").number();
  const double left =
      std::max(0.0, 1.0 - static_cast<double>(step - start_step_) /
                              static_cast<double>(stop_step_ - start_step_));
  return last + (first - last) * left * left * left;
}

int64_t MaskPruning::MemoryBytes(const Spec& spec, const nn::Graph& graph,
                                 int64_t state_floats) {
  if (!MaskPruning(spec, 0).active_) return 0;
  constexpr int64_t kRowsBytes = 16;   // sparse::KernelRows
  constexpr int64_t kEntryBytes = 16;  // kept entries, positions
  int64_t bytes = 0;
  for (const nn::ParameterDecl& declaration : graph.declarations) {
    if (!declaration.prunable) continue;
    bytes += declaration.nnz * (kEntryBytes + 4 * (1 + state_floats));
    if (!declaration.is_sparse()) bytes += declaration.nnz * kRowsBytes;
  }
  return bytes;
}

void MaskPruning::Apply(int64_t step, Start* start,
                        comm::Communicator* communicator,
                        const sparse::Compute& compute) const {
  nn::Model& model = *start->model;
  const std::vector<int64_t> wanted = nn::NonzerosAt(
      model.graph(), spec_.model().at("sparsity"), Density(step));
  Kept kept;
  bool changes = false;
  for (size_t t = 0; t < wanted.size(); ++t) {
    const nn::Parameter& tensor = model.parameters().tensors()[t];
    kept.push_back(AllButSmallest(model.parameters().values(tensor),
                                  tensor.size() - wanted[t]));
    changes |= std::ssize(kept[t]) < tensor.size();
  }
  if (!changes) return;

  const bool root = communicator->rank() == 0;
  const bool has_owner = start->exchange->has_owner_state();
  std::vector<float> owner;
  if (has_owner) {
    std::vector<float> whole(
        root ? static_cast<size_t>(model.parameters().size()) : 0);
    start->exchange->GatherOwnerState(whole);
    if (root) owner = Compacted(whole, model.parameters(), kept);
  }
  std::vector<std::vector<float>> arrays;
  for (std::span<float> flat : FlatArrays(start)) {
    arrays.push_back(Compacted(flat, model.parameters(), kept));
  }
  model.KeepEntries(kept);
  model.parameters().Refresh(compute.parallel);
  start->exchange.reset();
  NewWeightState(spec_, communicator, compute, start);
  const auto fresh = FlatArrays(start);
  for (size_t i = 0; i < arrays.size(); ++i) {
    std::copy(arrays[i].begin(), arrays[i].end(), fresh[i].begin());
  }
  if (has_owner) start->exchange->ScatterOwnerState(owner);
}

}  // namespace lumen::train
