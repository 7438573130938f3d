// SPDX-License-Identifier: Apache-2.0
// What a run will need, computed from the spec alone: no data, no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/core/panel.h"
#include "lumen/train/spec.h"

namespace lumen::train {

// Two for the forward pass; the backward pass costs two forward passes.
inline constexpr int64_t kFlopsPerMultiplyAdd = 6;

struct LayerPlan {
  std::string name;
  std::string type;
  std::string output_shape;
  int64_t parameters = 0;  // of the dense layer
  int64_t nnz = 0;
  int64_t flops_executed = 0;  // per sample, forward and backward
  int64_t flops_dense = 0;
};

struct MemoryItem {
  std::string name;  // "weights", "optimizer", ...
  int64_t bytes = 0;
};

struct Plan {
  int ranks = 1;
  int shards = 1;
  LaneLayout layout;
  std::vector<LayerPlan> layers;
  int64_t parameters = 0;
  int64_t nnz = 0;
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  std::vector<int> cuts;             // layers that end segments computed twice
  int64_t flops_again = 0;           // of that, per sample
  std::vector<MemoryItem> memory;    // per rank, of rank 0, the largest
  double wire_bytes_step = 0;        // all ranks together
  double wire_bytes_dense_step = 0;  // dense fp32 ring all-reduce, dense model
  double step_seconds = 0;           // rough: see src/train/README.md
  std::vector<std::string> warnings;

  int64_t memory_bytes() const;
};

// Throws SpecError when ranks > shards, when memory.limit is exceeded, or when
// data.shape and data.samples are needed because the files are absent.
Plan NewPlan(const Spec& spec, int ranks, int threads);

}  // namespace lumen::train
