// SPDX-License-Identifier: Apache-2.0
#include <glog/logging.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "lumen/core/panel.h"
#include "lumen/sparse/pattern.h"

namespace lumen::sparse {
namespace {

constexpr int64_t kChunk = int64_t{1} << 16;

std::vector<int64_t> Chunks(const std::vector<int64_t>& start, int64_t chunks) {
  const auto rows = static_cast<int64_t>(start.size()) - 1;
  const int64_t nnz = start.back();
  std::vector<int64_t> bounds = {0};
  for (int64_t c = 1; c < chunks; ++c) {
    // nnz * c / chunks, without overflow.
    const int64_t target = nnz / chunks * c + nnz % chunks * c / chunks;
    const int64_t row =
        std::lower_bound(start.begin(), start.end(), target) - start.begin();
    bounds.push_back(std::clamp(row, bounds.back(), rows));
  }
  bounds.push_back(rows);
  return bounds;
}

// Of the channels that rows read: how many to a part. Measured on 3x3 windows:
// parts gain down to about seven nonzeros, then the outputs, read and written
// once per part, cost more.
constexpr int64_t kPartVectors = 448;  // 28 KiB
constexpr int64_t kPartNonzeros = 7;

struct Parts {
  int64_t count = 1;
  int64_t channels = 0;  // per part
};

Parts CutRows(const Addressing& at, const MapLayout& map, int64_t rows,
              int64_t vectors, int64_t nnz) {
  const bool linear = map.channels == 0;
  if (linear || at.window().groups > 1 || rows == 0) return {};
  const int64_t channels = std::max<int64_t>(1, kPartVectors / vectors);
  const int64_t count = (map.channels + channels - 1) / channels;
  return nnz / rows / count < kPartNonzeros ? Parts{} : Parts{count, channels};
}

// `vectors` of a channel are read by a strip of outputs.
Parts ForwardParts(const Addressing& at, int64_t nnz) {
  const int64_t strip = std::min(KernelRows::kStrip, at.output().width);
  const int64_t vectors =
      at.span()[0] * ((strip - 1) * at.window().stride[1] + at.span()[1]);
  return CutRows(at, at.forward_map(), at.rows(), vectors, nnz);
}

Parts TransposedParts(const Addressing& at, int64_t nnz) {
  const int64_t strip = std::min(KernelRows::kStrip, at.input().width);
  const int64_t vectors =
      at.transposed_span()[0] * (strip - 1 + at.transposed_span()[1]);
  return CutRows(at, at.backward_map(), at.transposed_rows(), vectors, nnz);
}

// Bounds [part][row] of rows whose entries have ascending channels.
template <class ChannelOf>
std::vector<int64_t> PartBounds(const Parts& parts,
                                const std::vector<int64_t>& start,
                                const ChannelOf& channel_of) {
  if (parts.count == 1) return {};
  const size_t rows = start.size() - 1;
  std::vector<int64_t> bound;
  bound.reserve(static_cast<size_t>(parts.count + 1) * rows);
  bound.assign(start.begin(), start.end() - 1);
  for (int64_t part = 1; part <= parts.count; ++part) {
    for (size_t r = 0; r < rows; ++r) {
      int64_t p = bound[bound.size() - rows];
      while (p < start[r + 1] && channel_of(p) < part * parts.channels) ++p;
      bound.push_back(p);
    }
  }
  return bound;
}

// The view of one part.
RowView PartView(const std::vector<int64_t>& bound, int64_t rows, int64_t part,
                 const int32_t* offset) {
  const int64_t* start = bound.data() + part * rows;
  return {start, start + rows, offset};
}

int64_t BoundBytes(const Parts& parts, int64_t rows) {
  return parts.count == 1 ? 0 : 8 * rows * (parts.count + 1);
}

}  // namespace

KernelRows::KernelRows(Pattern pattern, const Addressing& addressing,
                       const Parallel& parallel)
    : addressing_(addressing),
      start_(std::move(pattern.row_start_)),
      offset_(std::move(pattern.column_)) {
  CHECK(pattern.rows_ == rows() && pattern.columns_ == columns());
  CHECK_LE(addressing.reach(), int64_t{std::numeric_limits<int32_t>::max()})
      << "offsets are 32-bit";
  pattern = Pattern();
  const int64_t nnz = offset_.size();
  CHECK_LT(nnz, int64_t{1} << 32) << "one tensor has too many nonzeros";
  transposed_start_.assign(
      static_cast<size_t>(addressing.transposed_rows() + 1), 0);
  const auto for_entries = [&](const auto& task) {
    for (int64_t r = 0; r < rows(); ++r) {
      for (int64_t p = start_[static_cast<size_t>(r)];
           p < start_[static_cast<size_t>(r + 1)]; ++p) {
        task(r, p);
      }
    }
  };
  for_entries([&](int64_t r, int64_t p) {
    const int64_t to = addressing.TransposedRow(r, offset_[p]);
    ++transposed_start_[static_cast<size_t>(to) + 1];
  });
  for (size_t c = 1; c < transposed_start_.size(); ++c) {
    transposed_start_[c] += transposed_start_[c - 1];
  }
  // Counting sort: inside a transposed row, by row and then column.
  transposed_offset_ = Buffer<int32_t>(nnz);
  permutation_ = Buffer<uint32_t>(nnz);
  transposed_value_ = Buffer<float>(nnz);
  std::vector<int64_t> next(transposed_start_.begin(),
                            transposed_start_.end() - 1);
  for_entries([&](int64_t r, int64_t p) {
    const int64_t column = offset_[p];
    const int64_t row = addressing.TransposedRow(r, column);
    const int64_t to = next[static_cast<size_t>(row)]++;
    transposed_offset_[to] =
        static_cast<int32_t>(addressing.TransposedOffset(r, column));
    permutation_[to] = static_cast<uint32_t>(p);
  });
  const int64_t positions =
      addressing.window().size[0] * addressing.window().size[1];
  bound_ = PartBounds(ForwardParts(addressing, nnz), start_,
                      [&](int64_t p) { return offset_[p] / positions; });
  const MapLayout& map = addressing.backward_map();
  transposed_bound_ = PartBounds(
      TransposedParts(addressing, nnz), transposed_start_, [&](int64_t p) {
        const int64_t offset = transposed_offset_[p];
        return (map.copied ? offset % map.row_pitch : offset) /
               map.channel_pitch;
      });
  // Columns become offsets in place.
  parallel.For(rows(), [&](int64_t r) {
    for (int64_t p = start_[static_cast<size_t>(r)];
         p < start_[static_cast<size_t>(r + 1)]; ++p) {
      offset_[p] = static_cast<int32_t>(addressing.Offset(r, offset_[p]));
    }
  });
}

RowView KernelRows::forward() const {
  return {start_.data(), start_.data() + 1, offset_.data()};
}

RowView KernelRows::transposed() const {
  return {transposed_start_.data(), transposed_start_.data() + 1,
          transposed_offset_.data()};
}

int64_t KernelRows::forward_parts() const {
  return ForwardParts(addressing_, nnz()).count;
}

int64_t KernelRows::transposed_parts() const {
  return TransposedParts(addressing_, nnz()).count;
}

RowView KernelRows::forward(int64_t part) const {
  if (bound_.empty()) return forward();
  return PartView(bound_, rows(), part, offset_.data());
}

RowView KernelRows::transposed(int64_t part) const {
  if (transposed_bound_.empty()) return transposed();
  return PartView(transposed_bound_, addressing_.transposed_rows(), part,
                  transposed_offset_.data());
}

void KernelRows::Positions(int64_t begin, std::span<int64_t> out) const {
  auto row = std::upper_bound(start_.begin(), start_.end(), begin) -
             start_.begin() - 1;
  for (int64_t& position : out) {
    while (begin >= start_[static_cast<size_t>(row + 1)]) ++row;
    position = row * columns() + addressing_.Column(row, offset_[begin++]);
  }
}

Pattern KernelRows::ToPattern() const {
  Buffer<int32_t> column(nnz());
  std::vector<int64_t> positions(static_cast<size_t>(nnz()));
  Positions(0, positions);
  for (int64_t p = 0; p < nnz(); ++p) {
    column[p] =
        static_cast<int32_t>(positions[static_cast<size_t>(p)] % columns());
  }
  return {rows(), columns(), start_, std::move(column)};
}

void KernelRows::RefreshTransposed(std::span<const float> value,
                                   const Parallel& parallel) {
  CHECK_EQ(static_cast<int64_t>(value.size()), nnz());
  parallel.For((nnz() + kChunk - 1) / kChunk, [&](int64_t c) {
    const int64_t end = std::min(nnz(), (c + 1) * kChunk);
    for (int64_t p = c * kChunk; p < end; ++p) {
      transposed_value_[p] = value[permutation_[p]];
    }
  });
}

std::vector<int64_t> KernelRows::ForwardChunks(int64_t chunks) const {
  return Chunks(start_, chunks);
}

std::vector<int64_t> KernelRows::TransposedChunks(int64_t chunks) const {
  return Chunks(transposed_start_, chunks);
}

int64_t KernelRows::MemoryBytes(const Addressing& addressing, int64_t nnz) {
  const int64_t rows = addressing.rows();
  const int64_t transposed_rows = addressing.transposed_rows();
  return 16 * nnz + 8 * (rows + 1) + 8 * (transposed_rows + 1) +
         BoundBytes(ForwardParts(addressing, nnz), rows) +
         BoundBytes(TransposedParts(addressing, nnz), transposed_rows);
}

}  // namespace lumen::sparse
