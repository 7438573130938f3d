// SPDX-License-Identifier: Apache-2.0
// The sum of the shards' slices of a region in tree order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/comm/codec.h"
#include "tree.h"

namespace lumen::comm {

// Adds sparse slices as if each were a dense vector of +0 plus its entries, in
// the order of the shard tree, but touches only the entries. Reusable; one
// thread at a time. Memory: one dense region per level of the tree.
class SparseSum {
 public:
  // total[p] += the tree sum of slices[s] over the shards s, for the positions
  // that occur. Slices lie inside total.
  void AddTo(std::span<const SparseSlice> slices, std::span<float> total);

  int64_t memory_bytes() const;

 private:
  // A dense region, zero outside `touched` (which may repeat positions).
  struct Level {
    std::vector<float> dense;
    std::vector<int32_t> touched;
  };

  void Scatter(const SparseSlice& slice, Level* level);
  // Empties `from` into `to`.
  static void Drain(Level* from, std::span<float> to);
  void Sum(std::span<const SparseSlice> slices, TreeNode node, int depth);

  std::vector<Level> levels_;  // by depth below the root
};

}  // namespace lumen::comm
