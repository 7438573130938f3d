// SPDX-License-Identifier: Apache-2.0
#include "sparse_sum.h"

namespace lumen::comm {

void SparseSum::Scatter(const SparseSlice& slice, Level* level) {
  for (size_t i = 0; i < slice.position.size(); ++i) {
    level->dense[slice.position[i]] += slice.value[i];
  }
  level->touched.insert(level->touched.end(), slice.position.begin(),
                        slice.position.end());
}

void SparseSum::Drain(Level* from, std::span<float> to) {
  for (const int32_t p : from->touched) {
    to[p] += from->dense[p];
    from->dense[p] = 0;  // a repeated position adds +0
  }
}

void SparseSum::Sum(std::span<const SparseSlice> slices, TreeNode node,
                    int depth) {
  Level& here = levels_[depth];
  if (node.level == 0) return Scatter(slices[node.begin()], &here);
  Sum(slices, node.left(), depth);
  if (!node.has_right(static_cast<int>(slices.size()))) return;
  if (node.level == 1) {  // +0 + left + right needs no second region
    return Scatter(slices[node.right().begin()], &here);
  }
  Sum(slices, node.right(), depth + 1);
  Level& right = levels_[depth + 1];
  Drain(&right, here.dense);
  here.touched.insert(here.touched.end(), right.touched.begin(),
                      right.touched.end());
  right.touched.clear();
}

void SparseSum::AddTo(std::span<const SparseSlice> slices,
                      std::span<float> total) {
  if (slices.empty()) return;
  const TreeNode root = TreeRoot(static_cast<int>(slices.size()));
  levels_.resize(std::max<size_t>(levels_.size(), root.level + 1));
  for (Level& level : levels_) {
    if (level.dense.size() < total.size()) level.dense.resize(total.size());
  }
  Sum(slices, root, 0);
  Drain(&levels_[0], total);
  levels_[0].touched.clear();
}

int64_t SparseSum::memory_bytes() const {
  int64_t bytes = 0;
  for (const Level& level : levels_) {
    bytes += static_cast<int64_t>(level.dense.capacity() * sizeof(float) +
                                  level.touched.capacity() * sizeof(int32_t));
  }
  return bytes;
}

}  // namespace lumen::comm
