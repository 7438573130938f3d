// SPDX-License-Identifier: Apache-2.0
// Which networks suit which data: a table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lumen/data/discovery.h"

namespace lumen::train {

// What a proposal knows before it chooses a network.
struct Setting {
  const data::Survey* survey = nullptr;
  int64_t batch = 0;
  int64_t shards = 0;
  // Too few samples per shard for the statistics of batch_norm.
  bool small_batch() const { return batch / shards < 16; }
};

// A network, and what goes with it.
struct Network {
  std::string title;      // "a residual network for small images"
  std::string model;      // "preset" or "layers" of a spec, with its key
  bool is_sparse = true;  // false: too few weights to leave some out
  std::string augment;    // of data.augment, or ""
  std::string optimizer;
  double rate = 0;  // train.lr.base
  int64_t least_epochs = 10;
};

struct NetworkFamily {
  bool (*suits)(const data::Survey& survey);
  int sizes;  // how many there are, the largest first
  // The first size that so many samples are enough for.
  int (*first_size)(int64_t samples);
  Network (*build)(const Setting& setting, int size);
};

// The first that suits is taken; the last suits everything.
std::span<const NetworkFamily> NetworkFamilies();

}  // namespace lumen::train
