// SPDX-License-Identifier: Apache-2.0
// Which weights exist: a sparse N x K pattern, rows of ascending columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/core/buffer.h"
#include "lumen/core/parallel.h"
#include "lumen/core/philox.h"
#include "lumen/sparse/kernels.h"
#include "lumen/sparse/window.h"

namespace lumen::sparse {

// 4 bytes per nonzero and 8 per row. Movable.
class Pattern {
 public:
  Pattern() = default;
  // Takes ownership. CHECKs ascending columns inside each row and the range.
  Pattern(int64_t rows, int64_t columns, std::vector<int64_t> row_start,
          Buffer<int32_t> column);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t nnz() const { return column_.size(); }
  double density() const;
  std::span<const int64_t> row_start() const { return row_start_; }
  std::span<const int32_t> column() const { return column_.span(); }
  // Writes row * columns + column of nonzeros [begin, begin + out.size()).
  void Positions(int64_t begin, std::span<int64_t> out) const;
  Pattern Clone() const;
  bool operator==(const Pattern& other) const;

 private:
  friend class KernelRows;  // takes the memory over
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  std::vector<int64_t> row_start_ = {0};
  Buffer<int32_t> column_;
};

// Exactly nnz positions, spread evenly over the rows (row counts differ by at
// most one), columns of a row uniform without replacement. A pure function of
// (key, rows, columns, nnz); no rows x columns array. Cost O(nnz + rows x
// columns / 64).
Pattern NewRandomPattern(RandomKey key, int64_t rows, int64_t columns,
                         int64_t nnz, const Parallel& parallel);
// From sorted unique positions row * columns + column. Throws SpecError when
// they are not ascending or out of range.
Pattern PatternFromPositions(int64_t rows, int64_t columns,
                             std::span<const int64_t> positions);

// A pattern made ready for the kernels, with its transpose. It takes the
// pattern's memory over.
//
// Long rows are cut into parts, each of the next few input channels, and stored
// part by part: first the entries of all rows in part 0, then those in part 1.
// A kernel that goes through them in this order (see kResume) reads its inputs
// from L1 or L2, and offsets and values one after the other. How many parts is
// a pure function of shape and nnz.
//
// 16 bytes per nonzero: offset, transposed offset, permutation and transposed
// value; with parts 4 more for the values in their order.
class KernelRows {
 public:
  // REQUIRES: the pattern has the rows and columns of `addressing`.
  KernelRows(Pattern pattern, const Addressing& addressing,
             const Parallel& parallel);
  // The pattern again, from the offsets.
  void Positions(int64_t begin, std::span<int64_t> out) const;
  Pattern ToPattern() const;
  int64_t rows() const { return addressing_.rows(); }
  int64_t columns() const { return addressing_.columns(); }
  int64_t nnz() const { return offset_.size(); }
  // Of the pattern: entry p of it has gradient dw[p].
  std::span<const int64_t> row_start() const { return start_; }

  // Outputs of a map go in strips of at most kStrip where there are parts.
  static constexpr int64_t kStrip = 14;
  int64_t forward_parts() const { return forward_.parts; }
  int64_t transposed_parts() const { return transposed_.parts; }
  // Nonzeros of transposed rows [first, first + count).
  int64_t TransposedNnz(int64_t first, int64_t count) const {
    return transposed_start_[static_cast<size_t>(first + count)] -
           transposed_start_[static_cast<size_t>(first)];
  }
  // All parts, or one of them.
  RowView forward() const;
  RowView transposed() const;
  RowView forward(int64_t part) const;
  RowView transposed(int64_t part) const;

  // Copies the values, in the order of the pattern, to where the products read
  // them: forward_value(value) and transposed_value() are right after it.
  void Refresh(std::span<const float> value, const Parallel& parallel);
  const float* forward_value(const float* value) const {
    return forward_.parts == 1 ? value : forward_value_.data();
  }
  const float* transposed_value() const { return transposed_value_.data(); }

  // spmm of rows [begin, end), part by part. `value` in the order of the
  // pattern, as given to Refresh.
  void Multiply(const KernelTable& kernels, const float* value,
                const float* bias, const float* x, float* y, Run run,
                int64_t begin, int64_t end) const;
  // spmm of transposed rows first + [begin, end), written from the start of
  // dx; `add`: added to what is there.
  void MultiplyTransposed(const KernelTable& kernels, int64_t first,
                          const float* dy, float* dx, Run run, int add,
                          int64_t begin, int64_t end) const;

  // Row boundaries that split [0, rows) (or the transposed rows) into chunks of
  // about equal nnz; a pure function of the pattern and the number of chunks.
  std::vector<int64_t> ForwardChunks(int64_t chunks) const;
  std::vector<int64_t> TransposedChunks(int64_t chunks) const;
  // For plan.
  static int64_t MemoryBytes(const Addressing& addressing, int64_t nnz);

 private:
  // Where the entries of each part of each row lie: [start[at], start[at + 1]),
  // at = part * rows + row.
  struct Blocks {
    int64_t parts = 1;
    int64_t rows = 0;
    std::vector<int64_t> start;

    RowView View(const int32_t* offset) const;
    RowView View(const int32_t* offset, int64_t part) const;
  };

  void StoreForward(Buffer<int32_t> column, const Parallel& parallel);
  void StoreTransposed(const Buffer<int32_t>& column);

  Addressing addressing_;
  std::vector<int64_t> start_;             // of rows, in the pattern
  std::vector<int64_t> transposed_start_;  // of all parts of transposed rows
  Blocks forward_, transposed_;
  // [part][row]: place in the pattern of its first entry; empty for one part.
  std::vector<int64_t> first_;
  Buffer<int32_t> offset_, transposed_offset_;
  Buffer<uint32_t> permutation_;  // place in the pattern of transposed entries
  Buffer<float> forward_value_;   // empty for one part
  Buffer<float> transposed_value_;
};

// Densities per layer for an overall density over the non-excluded layers.
struct LayerSize {
  int64_t rows = 0;          // outputs
  int64_t columns = 0;       // inputs, window included
  int64_t window = 1;        // R * Q * T
  int64_t window_sides = 0;  // R + Q + T, 0 for a linear layer
  bool excluded = false;
};
enum class Distribution { kUniform, kErk };
// Number of nonzeros of each layer: at least 1 and at most rows * columns;
// excluded layers are full. kErk: density proportional to
// (N + C + window sides) / (N * C * window), capped at 1 and redistributed
// (Evci et al. 2020, section 3, "Erdos-Renyi-Kernel").
std::vector<int64_t> DistributeNonzeros(Distribution distribution,
                                        double density,
                                        std::span<const LayerSize> layers);

}  // namespace lumen::sparse
