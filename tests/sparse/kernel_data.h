// SPDX-License-Identifier: Apache-2.0
// Nasty inputs for the kernel tests, and the comparison they are judged by.
#pragma once

#include <gtest/gtest.h>

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

// A sparse matrix as the kernels see it.
struct Rows {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<int64_t> start = {0};
  std::vector<int32_t> offset;  // column * vectors
  std::vector<float> value;

  RowView view() const { return {start.data(), offset.data()}; }
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

// x and dy of a unit: inside one tile (steps of a vector) or over tiles of 16
// lanes, in one segment or cut into several.
struct UnitData {
  std::vector<float> x, dy;
  int64_t x_vectors, dy_vectors;  // per column or row
  int64_t x_step, dy_step;        // in vectors
  std::vector<Segment> segments;

  UnitData(Source& source, Size size, int64_t vectors, bool contiguous,
           Values values, int64_t pieces = 1) {
    x_vectors = dy_vectors = contiguous ? vectors : 1;
    x_step = contiguous ? 1 : size.columns + 2;
    dy_step = contiguous ? 1 : size.rows + 1;
    x = source.Floats((size.columns * x_vectors + vectors * x_step) * 16,
                      values);
    dy = source.Floats((size.rows * dy_vectors + vectors * dy_step) * 16,
                       values);
    Cut(vectors, pieces);
  }
  void Cut(int64_t vectors, int64_t pieces) {
    segments.clear();
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t begin = vectors * i / pieces;
      const int64_t end = vectors * (i + 1) / pieces;
      if (begin == end) continue;
      segments.push_back({x.data() + begin * x_step * 16,
                          dy.data() + begin * dy_step * 16, end - begin});
    }
  }
  Unit view() const {
    return {segments.data(), static_cast<int64_t>(segments.size()), x_step,
            dy_step, dy_vectors};
  }
};

// A dense weight [rows][columns], or its transpose, over `vectors` vectors.
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
