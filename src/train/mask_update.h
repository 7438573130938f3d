// SPDX-License-Identifier: Apache-2.0
// Masks that change while training: which weights go and which come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/core/buffer.h"
#include "lumen/nn/growth.h"
#include "lumen/train/spec.h"
#include "model_state.h"

namespace lumen::train {

// Collective where said; masks are identical on all ranks.
class MaskUpdates {
 public:
  MaskUpdates(const Spec& spec, int64_t total_steps);

  // Does the mask change after this step?
  bool Due(int64_t step) const;
  // Forgets proposals of the step before.
  void BeginStep() { proposals_.clear(); }
  // What the backward pass of the next hosted shard has to look for in a step
  // that is due; what it finds is kept, coded, until Apply.
  nn::GrowthSearch NewSearch(const nn::Model& model, int64_t step);

  // Moves the smallest weights of each sparse tensor to new places: random ones
  // (set), or those whose summed gradient is largest among the candidates that
  // the shards propose (rigl). What a weight leaves behind, moments and
  // residuals, is lost; new ones start at zero. Returns how many moved.
  // Collective. Sends the candidates of every shard to every rank and moves the
  // owner state over rank 0.
  int64_t Apply(int64_t step, const StateParts& parts, const Parallel& parallel,
                comm::Communicator* communicator, Buffer<float>* owner);

  // Multiply-adds per sample of a search, for the books.
  int64_t SearchMultiplyAdds(const nn::Graph& graph) const;
  // The most memory that a step which is due needs, for plan.
  static int64_t MemoryBytes(const Spec& spec, const nn::Graph& graph);

 private:
  // The proposals of all shards in order, inside of `messages`.
  std::vector<std::span<const std::byte>> ShardProposals(
      comm::Communicator* communicator,
      std::vector<std::vector<std::byte>>* messages) const;
  // How many weights of a tensor move.
  int64_t Moves(int64_t step, int64_t nnz) const;

  bool dynamic_;
  bool by_gradient_;
  uint64_t seed_;
  int64_t every_;
  double drop_fraction_;
  int64_t stop_step_;
  // Of the hosted shards in order: tensors from the last to the first.
  std::vector<std::vector<std::byte>> proposals_;
};

}  // namespace lumen::train
