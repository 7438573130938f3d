// SPDX-License-Identifier: Apache-2.0
// Samples of which few values are not zero, and sets of labels. Views; they own
// nothing.
#pragma once

#include <cstdint>
#include <span>

namespace lumen {

// How the samples of a data set are held: as panels of all their values, or as
// rows of those that are there.
enum class SampleKind { kDense, kSparse };

// Row r holds entries start[r] .. start[r + 1] - 1, by ascending index.
struct SparseRows {
  std::span<const int64_t> start;  // [rows + 1]; empty: no rows
  std::span<const int32_t> index;
  std::span<const float> value;

  int64_t rows() const { return start.empty() ? 0 : std::ssize(start) - 1; }
};

// Row r holds labels start[r] .. start[r + 1] - 1, ascending.
struct LabelSets {
  std::span<const int64_t> start;  // [rows + 1]; empty: no rows
  std::span<const int32_t> label;

  int64_t rows() const { return start.empty() ? 0 : std::ssize(start) - 1; }
  std::span<const int32_t> of(int64_t row) const {
    const auto r = static_cast<size_t>(row);
    return label.subspan(static_cast<size_t>(start[r]),
                         static_cast<size_t>(start[r + 1] - start[r]));
  }
};

}  // namespace lumen
