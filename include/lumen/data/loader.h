// SPDX-License-Identifier: Apache-2.0
// Batches: which samples form a step, and the thread that reads them ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lumen/core/buffer.h"
#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/data/augmentation.h"
#include "lumen/data/dataset.h"

namespace lumen::data {

// One shard's share of a step, in lanes. Lanes without a sample (at and beyond
// `labels.size()`, the tail, a bad sample) hold zeros in x and targets;
// `labels[i]` is then -1. Samples with targets have label 0.
struct Batch {
  int64_t step = 0;
  int64_t epoch = 0;
  int shard = 0;
  Panel x;        // a view of storage
  Panel targets;  // [targets] x lanes, a view; no data for labelled samples
  std::vector<int32_t> labels;    // [samples of the layout]
  std::vector<uint64_t> samples;  // data set index, for random streams
  int64_t valid = 0;              // labels >= 0
  Buffer<float> storage;
  Buffer<float> target_storage;
};

enum class Order { kShuffle, kFile };
Order DataOrder(const Json& data_spec);  // the key data.order
// What becomes of the samples that do not fill the last batch of an epoch:
// training drops them, evaluation keeps them in a masked batch.
enum class Tail { kDrop, kKeep };

// Pure functions of the spec: the order of samples.
// Step s of epoch e takes positions [s * global_batch, (s + 1) * global_batch)
// of the epoch's order, shard i the i-th of `shards` equal parts of them.
// A data set smaller than global_batch gives one step per epoch with the
// missing samples masked.
class SampleOrder {
 public:
  // Order::kFile with Tail::kKeep visits every sample once, in file order: what
  // evaluation uses. REQUIRES: size >= 0, shards divides global_batch.
  SampleOrder(int64_t size, int64_t global_batch, int shards, uint64_t seed,
              Order order, Tail tail);
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t shard_batch() const { return global_batch_ / shards_; }
  int64_t size() const { return size_; }
  // Data set index per lane of the shard, -1 where there is none.
  std::vector<int64_t> Samples(int64_t step, int shard) const;

 private:
  int64_t size_;
  int64_t global_batch_;
  int shards_;
  uint64_t seed_;
  Order order_;
  int64_t steps_per_epoch_;
};

enum class BadSample { kError, kSkip };  // data.on_bad_sample

// What is done to a sample between data set and lanes: the augmentations in
// their order, then (x - mean) / deviation.
struct Transform {
  std::vector<float> mean;  // per channel; empty: none
  std::vector<float> deviation;
  std::vector<Augmentation> augmentations = {};
  BadSample on_bad_sample = BadSample::kError;
};
// From data.normalize; one value for all channels is written out per channel.
// Throws SpecError when the numbers of values do not match.
Transform NewTransform(const Json& data_spec, const Shape& shape);
// The same with data.augment: for the training split only.
Transform NewTrainingTransform(const Json& data_spec, const Shape& shape,
                               uint64_t seed);

// Reads the batches of `shards` (this rank's) for steps first_step, +1, ... in
// step order, shards ascending inside a step, on one background thread with two
// batches ahead. Batches before a bad sample are delivered before its error is
// thrown; with BadSample::kSkip its lane is masked, and the log tells once per
// epoch how many there were. Not thread-safe; destruction waits for at most one
// block of 16 samples. REQUIRES: `dataset` outlives it; layout.samples is the
// shard batch.
class Loader {
 public:
  Loader(const Dataset* dataset, const SampleOrder& order,
         const Transform& transform, LaneLayout layout, std::vector<int> shards,
         int64_t first_step, int64_t last_step);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; valid until the following call. nullptr after last_step
  // - 1. Rethrows what the reader threw.
  const Batch* Next();
  // Seconds that Next() had to wait so far.
  double wait_seconds() const;
  // Bytes of its batches (two ahead, one handed out) and of the block being
  // read, for plan.
  static int64_t MemoryBytes(const Shape& shape, int64_t targets,
                             LaneLayout layout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lumen::data
