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
constexpr int64_t kChunkRows = 1024;

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

// How many channels of its input a part of the rows reads.
//
// Measured on 3x3 windows: what a strip of outputs reads of a part should fit
// into L1, and a part of a row have seven nonzeros or more; below, the outputs,
// read and written once per part, cost more than is gained.
constexpr int64_t kPartVectors = 448;  // 28 KiB
constexpr int64_t kPartNonzeros = 7;
// And on linear layers: a part of a row should have about twelve nonzeros, as
// long as its inputs are at least about L1 and at most about half of L2.
constexpr int64_t kLinearNonzeros = 12;
constexpr int64_t kLeastLinearVectors = 768;  // 48 KiB
constexpr int64_t kMostLinearVectors = 4096;  // 256 KiB

struct Parts {
  int64_t count = 1;
  int64_t channels = 0;  // per part
};

Parts CutLinear(int64_t inputs, int64_t rows, int64_t lane_vectors,
                int64_t nnz) {
  const int64_t wanted = kLinearNonzeros * rows * inputs / nnz;
  const int64_t channels =
      std::clamp(wanted, kLeastLinearVectors / lane_vectors,
                 kMostLinearVectors / lane_vectors);
  if (2 * inputs <= 3 * channels) return {1, inputs};
  const int64_t count = (inputs + channels - 1) / channels;
  return {count, (inputs + count - 1) / count};
}

Parts CutRows(const Addressing& at, const MapLayout& map, int64_t rows,
              int64_t vectors, int64_t nnz) {
  if (at.window().groups > 1 || rows == 0) return {1, map.channels};
  const int64_t channels = std::max<int64_t>(1, kPartVectors / vectors);
  const int64_t count = (map.channels + channels - 1) / channels;
  if (nnz / rows / count < kPartNonzeros) return {1, map.channels};
  return {count, channels};
}

bool IsLinear(const Addressing& at) { return at.forward_map().channels == 0; }

// `vectors` of a channel are read by a strip of outputs.
Parts ForwardParts(const Addressing& at, int64_t nnz) {
  if (nnz == 0) return {};
  if (IsLinear(at)) {
    return CutLinear(at.columns(), at.rows(), at.forward_map().channel_pitch,
                     nnz);
  }
  const int64_t strip = std::min(KernelRows::kStrip, at.output().width);
  const int64_t vectors =
      at.span()[0] * ((strip - 1) * at.window().stride[1] + at.span()[1]);
  return CutRows(at, at.forward_map(), at.rows(), vectors, nnz);
}

Parts TransposedParts(const Addressing& at, int64_t nnz) {
  if (nnz == 0) return {};
  if (IsLinear(at)) {
    return CutLinear(at.rows(), at.columns(), at.backward_map().channel_pitch,
                     nnz);
  }
  const int64_t strip = std::min(KernelRows::kStrip, at.input().width);
  const int64_t vectors =
      at.transposed_span()[0] * (strip - 1 + at.transposed_span()[1]);
  return CutRows(at, at.backward_map(), at.transposed_rows(), vectors, nnz);
}

int64_t WindowPositions(const Addressing& at) {
  return at.window().size[0] * at.window().size[1];
}

void Accumulate(std::vector<int64_t>* counts) {
  for (size_t i = 1; i < counts->size(); ++i) {
    (*counts)[i] += (*counts)[i - 1];
  }
}

}  // namespace

RowView KernelRows::Blocks::View(const int32_t* offset) const {
  return {.start = start.data(),
          .end = start.data() + 1,
          .offset = offset,
          .parts = parts,
          .part_stride = rows};
}

RowView KernelRows::Blocks::View(const int32_t* offset, int64_t part) const {
  const int64_t* first = start.data() + part * rows;
  return {.start = first, .end = first + 1, .offset = offset};
}

KernelRows::KernelRows(Pattern pattern, const Addressing& addressing,
                       const Parallel& parallel)
    : addressing_(addressing), start_(std::move(pattern.row_start_)) {
  CHECK(pattern.rows_ == rows() && pattern.columns_ == columns());
  CHECK_LE(addressing.reach(), int64_t{std::numeric_limits<int32_t>::max()})
      << "offsets are 32-bit";
  CHECK_LT(pattern.nnz(), int64_t{1} << 32)
      << "one tensor has too many nonzeros";
  Buffer<int32_t> column = std::move(pattern.column_);
  pattern = Pattern();
  StoreTransposed(column);
  StoreForward(std::move(column), parallel);
}

void KernelRows::StoreForward(Buffer<int32_t> column,
                              const Parallel& parallel) {
  const int64_t nnz = column.size();
  const Parts parts = ForwardParts(addressing_, nnz);
  forward_ = {.parts = parts.count, .rows = rows()};
  if (parts.count == 1) {
    forward_.start = start_;
    offset_ = std::move(column);  // columns become offsets in place
    parallel.For(rows(), [&](int64_t r) {
      for (int64_t p = start_[static_cast<size_t>(r)];
           p < start_[static_cast<size_t>(r + 1)]; ++p) {
        offset_[p] = static_cast<int32_t>(addressing_.Offset(r, offset_[p]));
      }
    });
    return;
  }
  const int64_t positions = WindowPositions(addressing_);
  first_.resize(static_cast<size_t>(parts.count * rows()));
  forward_.start.assign(first_.size() + 1, 0);
  for (int64_t r = 0; r < rows(); ++r) {
    int64_t p = start_[static_cast<size_t>(r)];
    for (int64_t part = 0; part < parts.count; ++part) {
      const auto at = static_cast<size_t>(part * rows() + r);
      const int64_t end = (part + 1) * parts.channels * positions;
      first_[at] = p;
      while (p < start_[static_cast<size_t>(r + 1)] && column[p] < end) ++p;
      forward_.start[at + 1] = p - first_[at];
    }
  }
  Accumulate(&forward_.start);
  offset_ = Buffer<int32_t>(nnz);
  forward_value_ = Buffer<float>(nnz);
  parallel.For(rows(), [&](int64_t r) {
    for (int64_t part = 0; part < parts.count; ++part) {
      const auto at = static_cast<size_t>(part * rows() + r);
      int64_t from = first_[at];
      for (int64_t p = forward_.start[at]; p < forward_.start[at + 1]; ++p) {
        offset_[p] =
            static_cast<int32_t>(addressing_.Offset(r, column[from++]));
      }
    }
  });
}

// Counting sort by part and transposed row; inside, by row and then column.
void KernelRows::StoreTransposed(const Buffer<int32_t>& column) {
  const int64_t nnz = column.size();
  const Parts parts = TransposedParts(addressing_, nnz);
  const int64_t count = addressing_.transposed_rows();
  transposed_ = {.parts = parts.count, .rows = count};
  transposed_.start.assign(static_cast<size_t>(parts.count * count) + 1, 0);
  transposed_start_.assign(static_cast<size_t>(count) + 1, 0);
  const auto for_entries = [&](const auto& task) {
    for (int64_t r = 0; r < rows(); ++r) {
      const int64_t part = parts.count == 1 ? 0 : r / parts.channels;
      for (int64_t p = start_[static_cast<size_t>(r)];
           p < start_[static_cast<size_t>(r + 1)]; ++p) {
        const int64_t row = addressing_.TransposedRow(r, column[p]);
        task(r, row, static_cast<size_t>(part * count + row), p);
      }
    }
  };
  for_entries([&](int64_t, int64_t row, size_t at, int64_t) {
    ++transposed_start_[static_cast<size_t>(row) + 1];
    ++transposed_.start[at + 1];
  });
  Accumulate(&transposed_start_);
  Accumulate(&transposed_.start);
  transposed_offset_ = Buffer<int32_t>(nnz);
  permutation_ = Buffer<uint32_t>(nnz);
  transposed_value_ = Buffer<float>(nnz);
  std::vector<int64_t> next(transposed_.start.begin(),
                            transposed_.start.end() - 1);
  for_entries([&](int64_t r, int64_t, size_t at, int64_t p) {
    const int64_t to = next[at]++;
    transposed_offset_[to] =
        static_cast<int32_t>(addressing_.TransposedOffset(r, column[p]));
    permutation_[to] = static_cast<uint32_t>(p);
  });
}

RowView KernelRows::forward() const {
  RowView view = forward_.View(offset_.data());
  if (!first_.empty()) view.first = first_.data();
  return view;
}

RowView KernelRows::transposed() const {
  return transposed_.View(transposed_offset_.data());
}

RowView KernelRows::forward(int64_t part) const {
  RowView view = forward_.View(offset_.data(), part);
  if (!first_.empty()) view.first = first_.data() + part * rows();
  return view;
}

RowView KernelRows::transposed(int64_t part) const {
  return transposed_.View(transposed_offset_.data(), part);
}

void KernelRows::Multiply(const KernelTable& kernels, const float* value,
                          const float* bias, const float* x, float* y, Run run,
                          int64_t begin, int64_t end) const {
  for (int64_t part = 0; part < forward_.parts; ++part) {
    kernels.spmm(forward(part), forward_value(value),
                 part + 1 == forward_.parts ? bias : nullptr, x, y, run,
                 part == 0 ? 0 : kResume, begin, end);
  }
}

void KernelRows::MultiplyTransposed(const KernelTable& kernels, int64_t first,
                                    const float* dy, float* dx, Run run,
                                    int add, int64_t begin, int64_t end) const {
  // What is added to cannot be resumed from: all parts of a row at once.
  const int64_t calls = add ? 1 : transposed_.parts;
  for (int64_t part = 0; part < calls; ++part) {
    RowView rows = add ? transposed() : transposed(part);
    rows.start += first;
    rows.end += first;
    kernels.spmm(rows, transposed_value(), nullptr, dy, dx, run,
                 part == 0 ? add : kResume, begin, end);
  }
}

void KernelRows::Positions(int64_t begin, std::span<int64_t> out) const {
  if (out.empty()) return;
  const int64_t end = begin + std::ssize(out);
  int64_t row = std::upper_bound(start_.begin(), start_.end(), begin) -
                start_.begin() - 1;
  for (; row < rows() && start_[static_cast<size_t>(row)] < end; ++row) {
    int64_t position = start_[static_cast<size_t>(row)];  // in the pattern
    for (int64_t part = 0; part < forward_.parts; ++part) {
      const auto at = static_cast<size_t>(part * rows() + row);
      for (int64_t p = forward_.start[at]; p < forward_.start[at + 1];
           ++p, ++position) {
        if (position < begin || position >= end) continue;
        out[static_cast<size_t>(position - begin)] =
            row * columns() + addressing_.Column(row, offset_[p]);
      }
    }
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

void KernelRows::Refresh(std::span<const float> value,
                         const Parallel& parallel) {
  CHECK_EQ(static_cast<int64_t>(value.size()), nnz());
  parallel.For((nnz() + kChunk - 1) / kChunk, [&](int64_t c) {
    const int64_t end = std::min(nnz(), (c + 1) * kChunk);
    for (int64_t p = c * kChunk; p < end; ++p) {
      transposed_value_[p] = value[permutation_[p]];
    }
  });
  if (forward_.parts == 1) return;
  const int64_t chunks = (rows() + kChunkRows - 1) / kChunkRows;
  parallel.For(forward_.parts * chunks, [&](int64_t c) {
    const int64_t begin = c % chunks * kChunkRows;
    const int64_t end = std::min(rows(), begin + kChunkRows);
    for (int64_t r = begin; r < end; ++r) {
      const auto at = static_cast<size_t>(c / chunks * rows() + r);
      std::copy_n(value.data() + first_[at],
                  forward_.start[at + 1] - forward_.start[at],
                  forward_value_.data() + forward_.start[at]);
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
  const int64_t parts = ForwardParts(addressing, nnz).count;
  const int64_t transposed_parts = TransposedParts(addressing, nnz).count;
  int64_t bytes = 16 * nnz + 8 * (rows + 1) + 8 * (parts * rows + 1) +
                  8 * (transposed_rows + 1) +
                  8 * (transposed_parts * transposed_rows + 1);
  if (parts > 1) bytes += 4 * nnz + 8 * parts * rows;
  return bytes;
}

}  // namespace lumen::sparse
