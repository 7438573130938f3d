// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/pattern.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "lumen/core/error.h"

namespace lumen::sparse {

Pattern::Pattern(int64_t rows, int64_t columns, std::vector<int64_t> row_start,
                 Buffer<int32_t> column)
    : rows_(rows),
      columns_(columns),
      row_start_(std::move(row_start)),
      column_(std::move(column)) {
  CHECK_EQ(static_cast<int64_t>(row_start_.size()), rows + 1);
  CHECK_EQ(row_start_.front(), 0);
  CHECK_EQ(row_start_.back(), column_.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = row_start_[static_cast<size_t>(r)];
    const int64_t end = row_start_[static_cast<size_t>(r + 1)];
    CHECK_LE(begin, end) << "row " << r;
    int64_t last = -1;
    for (int64_t p = begin; p < end; ++p) {
      CHECK(column_[p] > last && column_[p] < columns)
          << "row " << r << ": column " << column_[p];
      last = column_[p];
    }
  }
}

double Pattern::density() const {
  const double dense =
      static_cast<double>(rows_) * static_cast<double>(columns_);
  return dense > 0 ? static_cast<double>(nnz()) / dense : 0.0;
}

void Pattern::Positions(int64_t begin, std::span<int64_t> out) const {
  auto row = std::upper_bound(row_start_.begin(), row_start_.end(), begin) -
             row_start_.begin() - 1;
  for (int64_t& position : out) {
    while (begin >= row_start_[static_cast<size_t>(row + 1)]) ++row;
    position = row * columns_ + column_[begin++];
  }
}

Pattern Pattern::Clone() const {
  Pattern copy;
  copy.rows_ = rows_;
  copy.columns_ = columns_;
  copy.row_start_ = row_start_;
  copy.column_ = Buffer<int32_t>(column_.size());
  std::copy(column().begin(), column().end(), copy.column_.data());
  return copy;
}

bool Pattern::operator==(const Pattern& other) const {
  return rows_ == other.rows_ && columns_ == other.columns_ &&
         row_start_ == other.row_start_ &&
         std::equal(column().begin(), column().end(), other.column().begin(),
                    other.column().end());
}

namespace {

// Sets `count` random bits of the first `columns`: uniform draws, those that
// hit a set bit again are left out. At most half of the bits are drawn; for
// more, the zeros are. Draws are numbered, so the result is a pure function of
// its inputs.
void DrawColumns(RandomKey key, int64_t row, int64_t columns, int64_t count,
                 std::vector<uint64_t>* bits) {
  const bool zeros = count > columns / 2;
  bits->assign(static_cast<size_t>((columns + 63) / 64),
               zeros ? ~uint64_t{0} : uint64_t{0});
  int64_t left = zeros ? columns - count : count;
  for (uint32_t draw = 0; left > 0; ++draw) {
    for (uint32_t word : Draw(key, 0, static_cast<uint64_t>(row), draw)) {
      // Lemire 2019, "Fast Random Integer Generation in an Interval", without
      // the rejection: the bias is below columns / 2^32.
      const uint64_t column =
          static_cast<uint64_t>(word) * static_cast<uint64_t>(columns) >> 32;
      uint64_t& part = (*bits)[column / 64];
      const uint64_t bit = uint64_t{1} << column % 64;
      const bool taken = ((part & bit) != 0) != zeros;
      if (taken || left == 0) continue;
      part ^= bit;
      --left;
    }
  }
}

}  // namespace

Pattern NewRandomPattern(RandomKey key, int64_t rows, int64_t columns,
                         int64_t nnz, const Parallel& parallel) {
  CHECK(nnz >= 0 && nnz <= rows * columns) << nnz;
  // Row r ends at floor(nnz * r / rows): counts differ by at most one.
  std::vector<int64_t> row_start(static_cast<size_t>(rows + 1), 0);
  const int64_t each = rows > 0 ? nnz / rows : 0;
  const int64_t more = rows > 0 ? nnz % rows : 0;
  for (int64_t r = 1; r <= rows; ++r) {
    row_start[static_cast<size_t>(r)] = r * each + r * more / rows;
  }
  Buffer<int32_t> column(nnz);
  constexpr int64_t kRowsPerTask = 64;
  parallel.For((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task) {
    std::vector<uint64_t> bits;
    const int64_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (int64_t r = task * kRowsPerTask; r < end; ++r) {
      int64_t to = row_start[static_cast<size_t>(r)];
      const int64_t stop = row_start[static_cast<size_t>(r + 1)];
      DrawColumns(key, r, columns, stop - to, &bits);
      for (size_t part = 0; part < bits.size(); ++part) {
        const auto first = static_cast<int32_t>(part * 64);
        for (uint64_t set = bits[part]; set != 0 && to < stop; set &= set - 1) {
          column[to++] = first + std::countr_zero(set);
        }
      }
    }
  });
  return {rows, columns, std::move(row_start), std::move(column)};
}

Pattern PatternFromPositions(int64_t rows, int64_t columns,
                             std::span<const int64_t> positions) {
  std::vector<int64_t> row_start(static_cast<size_t>(rows + 1), 0);
  Buffer<int32_t> column(static_cast<int64_t>(positions.size()));
  int64_t last = -1;
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t position = positions[i];
    if (position <= last || position >= rows * columns) {
      throw SpecError("mask: position " + std::to_string(position) +
                      "; expected ascending positions below " +
                      std::to_string(rows * columns));
    }
    last = position;
    ++row_start[static_cast<size_t>(position / columns + 1)];
    column[static_cast<int64_t>(i)] = static_cast<int32_t>(position % columns);
  }
  for (size_t r = 1; r < row_start.size(); ++r) {
    row_start[r] += row_start[r - 1];
  }
  return {rows, columns, std::move(row_start), std::move(column)};
}

std::vector<int64_t> DistributeNonzeros(Distribution distribution,
                                        double density,
                                        std::span<const LayerSize> layers) {
  const auto size = [](const LayerSize& layer) {
    return static_cast<double>(layer.rows) * static_cast<double>(layer.columns);
  };
  // Raw score of a layer; its density is epsilon * score, at most 1.
  std::vector<double> score(layers.size());
  std::vector<bool> full(layers.size());
  double budget = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSize& layer = layers[i];
    full[i] = layer.excluded;
    score[i] = 1;
    if (distribution == Distribution::kErk && size(layer) > 0) {
      const int64_t channels = layer.columns / layer.window;
      const auto sides =
          static_cast<double>(layer.rows + channels + layer.window_sides);
      score[i] = sides / size(layer);
    }
    if (!layer.excluded) budget += density * size(layer);
  }
  // Layers that would exceed density 1 are full; the rest share what is left.
  double epsilon = 0;
  for (bool changed = true; changed;) {
    changed = false;
    double left = budget;
    double weight = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].excluded) continue;
      if (full[i]) {
        left -= size(layers[i]);
      } else {
        weight += score[i] * size(layers[i]);
      }
    }
    epsilon = weight > 0 ? left / weight : 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (!full[i] && epsilon * score[i] > 1) full[i] = changed = true;
    }
  }
  std::vector<int64_t> nonzeros;
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t all = layers[i].rows * layers[i].columns;
    const double wanted = epsilon * score[i] * size(layers[i]);
    nonzeros.push_back(full[i] ? all
                               : std::clamp<int64_t>(std::llround(wanted),
                                                     std::min<int64_t>(1, all),
                                                     all));
  }
  return nonzeros;
}

}  // namespace lumen::sparse
