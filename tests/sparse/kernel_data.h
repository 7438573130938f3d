// SPDX-License-Identifier: Apache-2.0
// Nasty inputs for the kernel tests, and the comparison they are judged by.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lumen/sparse/kernels.h"

namespace lumen::sparse {

// What numbers a test draws.
enum class Values {
  kOrdinary,  // uniform in [-1, 1)
  kFinite,    // exponents -149..60: denormals, underflow, zeros of both signs
  kAny,       // any bits: infinities and NaN as well
};

inline const char* ValuesName(Values values) {
  return values == Values::kOrdinary ? "ordinary"
         : values == Values::kFinite ? "finite"
                                     : "any";
}

class Source {
 public:
  explicit Source(uint32_t seed) : engine_(seed) {}

  int64_t Int(int64_t begin, int64_t end) {  // [begin, end)
    return begin +
           static_cast<int64_t>(engine_() % static_cast<uint32_t>(end - begin));
  }

  float Float(Values values) {
    const uint32_t bits = engine_();
    if (values == Values::kOrdinary) {
      return static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f;
    }
    const uint32_t kind = engine_() % 8;
    if (kind == 0) return bits & 1 ? -0.0f : 0.0f;
    if (kind == 1) return std::bit_cast<float>(bits & 0x807FFFFF);  // denormal
    if (kind == 2 && values == Values::kAny) {
      const float infinity = std::numeric_limits<float>::infinity();
      return bits & 1 ? -infinity : infinity;
    }
    if (kind < 6) return static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f;
    if (values == Values::kAny) return std::bit_cast<float>(bits);
    const float mantissa = static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f;
    return std::ldexp(mantissa, static_cast<int>(engine_() % 210) - 149);
  }

  std::vector<float> Floats(int64_t count, Values values) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& f : out) f = Float(values);
    return out;
  }

 private:
  std::mt19937 engine_;
};

// task(row, place in the gradient, entry) for all entries of the rows, each row
// in order.
template <class Task>
void ForEntries(const RowView& rows, int64_t count, const Task& task) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t part = 0; part < rows.parts; ++part) {
      const int64_t at = part * rows.part_stride + r;
      int64_t place = rows.first ? rows.first[at] : rows.start[at];
      for (int64_t p = rows.start[at]; p < rows.end[at]; ++p) {
        task(r, place++, p);
      }
    }
  }
}

// A sparse matrix as the kernels see it.
struct Rows {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<int64_t> start = {0};
  std::vector<int32_t> offset;  // column * vectors
  std::vector<float> value;

  RowView view() const {
    return {.start = start.data(),
            .end = start.data() + 1,
            .offset = offset.data()};
  }
  int64_t nnz() const { return static_cast<int64_t>(offset.size()); }
};

// Every row has its own density, so some are empty and some full.
inline Rows NewRows(Source& source, int64_t rows, int64_t columns,
                    int64_t vectors, Values values) {
  Rows out{.rows = rows, .columns = columns};
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t percent = std::vector<int64_t>{
        0, 3, 20, 50, 100}[static_cast<size_t>(source.Int(0, 5))];
    for (int64_t c = 0; c < columns; ++c) {
      if (source.Int(0, 100) < percent) {
        out.offset.push_back(static_cast<int32_t>(c * vectors));
        out.value.push_back(source.Float(values));
      }
    }
    out.start.push_back(out.nnz());
  }
  return out;
}

inline Rows NewFullRows(Source& source, int64_t rows, int64_t columns,
                        int64_t vectors, Values values) {
  Rows out{.rows = rows, .columns = columns};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      out.offset.push_back(static_cast<int32_t>(c * vectors));
      out.value.push_back(source.Float(values));
    }
    out.start.push_back(out.nnz());
  }
  return out;
}

// The same rows, each cut anywhere into parts (also empty ones) and stored part
// by part.
struct RowsInParts {
  std::vector<int64_t> start = {0}, first;
  std::vector<int32_t> offset;
  std::vector<float> value;
  RowView view;

  RowsInParts(Source& source, const Rows& rows, int64_t parts) {
    std::vector<int64_t> next(rows.start.begin(), rows.start.end() - 1);
    for (int64_t part = 0; part < parts; ++part) {
      for (size_t r = 0; r < next.size(); ++r) {
        const int64_t last = rows.start[r + 1];
        const int64_t end =
            part + 1 == parts ? last : source.Int(next[r], last + 1);
        first.push_back(next[r]);
        for (; next[r] < end; ++next[r]) {
          offset.push_back(rows.offset[static_cast<size_t>(next[r])]);
          value.push_back(rows.value[static_cast<size_t>(next[r])]);
        }
        start.push_back(std::ssize(offset));
      }
    }
    view = {.start = start.data(),
            .end = start.data() + 1,
            .offset = offset.data(),
            .first = first.data(),
            .parts = parts,
            .part_stride = rows.rows};
  }
  RowsInParts(const RowsInParts&) = delete;
};

// Equal bit for bit; where both are NaN the payload does not count.
inline ::testing::AssertionResult SameBits(const std::vector<float>& expected,
                                           const std::vector<float>& actual) {
  if (expected.size() != actual.size()) {
    return ::testing::AssertionFailure()
           << expected.size() << " values, then " << actual.size();
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    const auto a = std::bit_cast<uint32_t>(expected[i]);
    const auto b = std::bit_cast<uint32_t>(actual[i]);
    if (a == b) continue;
    return ::testing::AssertionFailure()
           << "element " << i << ": expected " << expected[i] << " ("
           << std::hex << a << "), found " << actual[i] << " (" << b << ")";
  }
  return ::testing::AssertionSuccess();
}

inline constexpr Values kAllValues[] = {Values::kOrdinary, Values::kFinite,
                                        Values::kAny};
// Shapes that end inside, at and after every block the kernels work in.
struct Size {
  int64_t rows;
  int64_t columns;
};
inline constexpr Size kSizes[] = {{1, 1},  {1, 37},  {5, 1},   {4, 16}, {3, 17},
                                  {9, 15}, {16, 33}, {13, 70}, {0, 4},  {7, 0}};
// Written before each call, so that an element left alone is seen.
inline constexpr float kUntouched = 12345.0f;

// Where the vectors of a unit lie.
enum class Place {
  kMap,      // one after the other, like dy
  kStrided,  // of x every second
  kTiles,    // in tiles of 16 samples
};
inline constexpr Place kAllPlaces[] = {Place::kMap, Place::kStrided,
                                       Place::kTiles};

// x and dy of a unit. Its segments are copies, each somewhere else in memory.
struct UnitData {
  std::vector<float> x, dy;
  int64_t vectors;
  int64_t x_vectors, dy_vectors;  // from column to column, row to row
  int64_t x_step, dy_step;        // in vectors
  std::vector<std::vector<float>> copies;
  std::vector<Segment> segments;

  UnitData(Source& source, Size size, int64_t count, Place place, Values values)
      : vectors(count) {
    const bool tiles = place == Place::kTiles;
    x_step = tiles ? size.columns + 2 : place == Place::kStrided ? 2 : 1;
    dy_step = tiles ? size.rows + 1 : 1;
    x_vectors = tiles ? 1 : vectors * x_step;
    dy_vectors = tiles ? 1 : vectors;
    x = source.Floats((size.columns * x_vectors + vectors * x_step) * 16,
                      values);
    dy = source.Floats((size.rows * dy_vectors + vectors * dy_step) * 16,
                       values);
    Cut({0, vectors});
  }
  // Segments between bounds; equal bounds make an empty one.
  void Cut(const std::vector<int64_t>& bounds) {
    copies.clear();
    segments.clear();
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      const auto part = [&](const std::vector<float>& from, int64_t step) {
        copies.emplace_back(from.begin() + bounds[i] * step * 16, from.end());
        return copies.back().data();
      };
      const float* x_part = part(x, x_step);
      const float* dy_part = part(dy, dy_step);
      segments.push_back({x_part, dy_part, bounds[i + 1] - bounds[i]});
    }
  }
  // About equal segments.
  void CutEvenly(int64_t pieces) {
    std::vector<int64_t> bounds;
    for (int64_t i = 0; i <= pieces; ++i)
      bounds.push_back(vectors * i / pieces);
    Cut(bounds);
  }
  void CutAnywhere(Source& source, int64_t pieces) {
    std::vector<int64_t> bounds = {0, vectors};
    for (int64_t i = 1; i < pieces; ++i) {
      bounds.push_back(source.Int(0, vectors + 1));
    }
    std::sort(bounds.begin(), bounds.end());
    Cut(bounds);
  }
  Unit view() const {
    return {segments.data(), std::ssize(segments), x_step, dy_step, dy_vectors};
  }
  // Of vector v and lane l.
  float X(int64_t offset, int64_t v, int64_t l) const {
    return x[static_cast<size_t>((offset + v * x_step) * 16 + l)];
  }
  float Dy(int64_t row, int64_t v, int64_t l) const {
    return dy[static_cast<size_t>((row * dy_vectors + v * dy_step) * 16 + l)];
  }
};

// x and y of a run over a map: a column of x and a row of y with what lies
// between their vectors, and a gap after each row of y.
struct RunData {
  Run run;
  int64_t x_vectors;  // from column to column
  std::vector<float> x, y;

  RunData(Source& source, Size size, int64_t vectors, int64_t x_step,
          int64_t y_step, Values values) {
    run = {vectors, x_step, y_step, (vectors - 1) * y_step + 2};
    x_vectors = (vectors - 1) * x_step + 1;
    x = source.Floats(size.columns * x_vectors * 16, values);
    y = source.Floats(size.rows * run.y_row * 16, values);
  }
};

// A dense weight [rows][columns] (entry_stride 1), or its transpose (row_stride
// 1), over `vectors` vectors.
struct DenseRows {
  std::vector<int64_t> entry;
  std::vector<int32_t> offset;
  DenseView view;

  DenseRows(const float* weight, int64_t row_stride, int64_t entries,
            int64_t entry_stride, int64_t vectors) {
    for (int64_t i = 0; i < entries; ++i) {
      entry.push_back(i * entry_stride);
      offset.push_back(static_cast<int32_t>(i * vectors));
    }
    view = {weight, row_stride, entry.data(), offset.data(), entries};
  }
};

// |error| of n chained fp32 operations on terms whose magnitudes sum to
// `scale`.
inline double Bound(double scale, int64_t n) {
  return scale * static_cast<double>(n + 2) * 0x1p-24 + 1e-30;
}

inline const KernelTable& Scalar() { return Kernels(Isa::kScalar); }

// Base of test suites that run on each instruction set of this CPU.
class PerIsaTest : public ::testing::TestWithParam<Isa> {
 protected:
  const KernelTable& table() const { return Kernels(GetParam()); }
};

inline std::string NameOfIsa(const ::testing::TestParamInfo<Isa>& info) {
  return std::string(IsaName(info.param));
}

}  // namespace lumen::sparse
