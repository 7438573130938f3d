// SPDX-License-Identifier: Apache-2.0
// The fixed binary tree in which shards are summed: the order of additions is
// part of the mathematics.
//
// Level 0 holds the S shards. Each further level adds neighbours (0,1), (2,3),
// ...; a lone last node is passed up unchanged. So node (l, i) covers shards
// [i * 2^l, min((i + 1) * 2^l, S)), and S = 7 gives
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + 6).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lumen::comm {

struct TreeNode {
  int level = 0;
  int index = 0;
  int begin() const { return index << level; }
  int end(int shards) const { return std::min((index + 1) << level, shards); }
  TreeNode left() const { return {level - 1, 2 * index}; }
  TreeNode right() const { return {level - 1, 2 * index + 1}; }
  bool has_right(int shards) const { return right().begin() < shards; }
};

inline TreeNode TreeRoot(int shards) {
  int level = 0;
  while (1 << level < shards) ++level;
  return {level, 0};
}

// The largest nodes whose shards all lie in [begin, end), in shard order: what
// a rank that hosts those shards may add up on its own.
inline void AppendCover(TreeNode node, int shards, int begin, int end,
                        std::vector<TreeNode>* out) {
  if (node.begin() >= end || node.end(shards) <= begin) return;
  if (node.begin() >= begin && node.end(shards) <= end) {
    out->push_back(node);
    return;
  }
  AppendCover(node.left(), shards, begin, end, out);
  if (node.has_right(shards)) {
    AppendCover(node.right(), shards, begin, end, out);
  }
}

inline std::vector<TreeNode> TreeCover(int shards, int begin, int end) {
  std::vector<TreeNode> cover;
  AppendCover(TreeRoot(shards), shards, begin, end, &cover);
  return cover;
}

}  // namespace lumen::comm
