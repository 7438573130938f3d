// SPDX-License-Identifier: Apache-2.0
// Products with every weight present, in the same order of additions: dense and
// dense_dw. Part of kernels.inl.
namespace lumen::sparse {
namespace {

template <int R>
struct RowCount {
  static constexpr int kRows = R;
};

// The lane sums over a unit of M rows by E columns, to kept[m][16][16]. Columns
// from `count` on repeat the last one.
template <int M, int E>
LUMEN_INLINE void DenseChains(const Unit& unit, const int32_t* offset,
                              int64_t count, int64_t row, float* kept) {
  Vec sum[M][E];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int e = 0; e < E; ++e) sum[m][e] = Zero();
  }
  for (int64_t s = 0; s < unit.count; ++s) {
    const Segment& segment = unit.segments[s];
    const float* dy = segment.dy + row * unit.dy_row * kLanes;
    const float* from[E];
#pragma GCC unroll 4
    for (int e = 0; e < E; ++e) {
      from[e] = segment.x + int64_t{offset[e < count ? e : count - 1]} * kLanes;
    }
    const auto add = [&](int64_t v) LUMEN_INLINE_LAMBDA {
      Vec x[E];
#pragma GCC unroll 4
      for (int e = 0; e < E; ++e)
        x[e] = Load(from[e] + v * unit.x_step * kLanes);
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        const Vec d = Load(dy + (m * unit.dy_row + v * unit.dy_step) * kLanes);
#pragma GCC unroll 4
        for (int e = 0; e < E; ++e) sum[m][e] = Fma(d, x[e], sum[m][e]);
      }
    };
    if (segment.vectors == 8) {  // a tile of a linear layer: short, so unrolled
#pragma GCC unroll 8
      for (int64_t v = 0; v < 8; ++v) add(v);
    } else {
      for (int64_t v = 0; v < segment.vectors; ++v) add(v);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int e = 0; e < E; ++e) {
      Store(kept + (m * kLanes + e) * kLanes, sum[m][e]);
    }
  }
}

// M rows of up to 16 columns.
template <int M>
LUMEN_INLINE void DenseDots(const Unit& unit, const int32_t* offset,
                            int64_t count, int64_t row, int accumulate,
                            float* kept, float* dw, int64_t columns) {
  for (int64_t i = 0; i < count; i += kDwColumns) {
    DenseChains<M, kDwColumns>(unit, offset + i, count - i, row,
                               kept + i * kLanes);
  }
  for (int m = 0; m < M; ++m) {
    const float* row_kept = kept + m * kLanes * kLanes;
    const Vec sums = TreeSums(
        [&](int i) LUMEN_INLINE_LAMBDA { return Load(row_kept + i * kLanes); });
    Put(sums, accumulate, count, dw + m * columns);
  }
}

// Columns that go together: what they read of x stays near the core.
constexpr int64_t kDwBlock = 64;

void DenseDw(const int32_t* offset, int64_t columns, Unit unit, int accumulate,
             float* dw, int64_t row_begin, int64_t row_end) {
  static_assert(kLanes % kDwColumns == 0);
  alignas(64) float kept[kDwRows * kLanes * kLanes] = {};
  for (int64_t block = 0; block < columns; block += kDwBlock) {
    const int64_t end = block + kDwBlock < columns ? block + kDwBlock : columns;
    const auto rows = [&](auto several, int64_t r) LUMEN_INLINE_LAMBDA {
      for (int64_t c = block; c < end; c += kLanes) {
        DenseDots<decltype(several)::kRows>(
            unit, offset + c, end - c < kLanes ? end - c : kLanes, r,
            accumulate, kept, dw + r * columns + c, columns);
      }
    };
    int64_t r = row_begin;
    for (; r + kDwRows <= row_end; r += kDwRows) rows(RowCount<kDwRows>{}, r);
    for (; r < row_end; ++r) rows(RowCount<1>{}, r);
  }
}

// A piece of a dense weight, [entry][M] of M rows at a time.
struct DensePiece {
  const float* weight;
  const int32_t* offset;
  int64_t entries;
};

// M rows by R vectors in registers; x and y point to the first of them.
template <int M, int R>
LUMEN_INLINE void DenseBlock(const DensePiece& piece, const float* bias,
                             const float* x, float* y, const Run& run,
                             bool resume) {
  const auto at = [&](int m, int t) LUMEN_INLINE_LAMBDA {
    return y + (m * run.y_row + t * run.y_step) * kLanes;
  };
  Vec sum[M][R];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) sum[m][t] = resume ? Load(at(m, t)) : Zero();
  }
  for (int64_t i = 0; i < piece.entries; ++i) {
    const float* from = x + int64_t{piece.offset[i]} * kLanes;
    Vec in[R];
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) in[t] = Load(from + t * run.x_step * kLanes);
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const Vec v = Set1(piece.weight[i * M + m]);
#pragma GCC unroll 4
      for (int t = 0; t < R; ++t) sum[m][t] = Fma(v, in[t], sum[m][t]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) {
      Store(at(m, t), bias ? Add(sum[m][t], Set1(bias[m])) : sum[m][t]);
    }
  }
}

// The vectors of a run for M rows.
template <int M>
void DenseRows(const DensePiece& piece, const float* bias, const float* x,
               float* y, const Run& run, bool resume) {
  static_assert(kDenseVectors <= 4);
  for (int64_t at = 0; at < run.vectors;) {
    const int64_t block = NextBlock(run.vectors - at, kDenseVectors);
    const float* from = x + at * run.x_step * kLanes;
    float* to = y + at * run.y_step * kLanes;
    if (block == 4) {
      DenseBlock<M, 4>(piece, bias, from, to, run, resume);
    } else if (block == 3) {
      DenseBlock<M, 3>(piece, bias, from, to, run, resume);
    } else if (block == 2) {
      DenseBlock<M, 2>(piece, bias, from, to, run, resume);
    } else {
      DenseBlock<M, 1>(piece, bias, from, to, run, resume);
    }
    at += block;
  }
}

// Pieces of a dense weight: what goes together stays near the core.
constexpr int64_t kPieceEntries = 64;
constexpr int64_t kPieceRows = 48;
constexpr int64_t kPieceVectors = 8;

// M rows of `entries` entries, to [entry][M].
template <int M>
LUMEN_INLINE void PackRows(const float* weight, int64_t row_stride,
                           const int64_t* entry, int64_t entries, float* to) {
  for (int64_t i = 0; i < entries; ++i) {
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m)
      to[i * M + m] = weight[entry[i] + m * row_stride];
  }
}

// `count` rows from `row` on, all entries; y points to the first.
void DensePieces(const DenseView& rows, const float* bias, const float* x,
                 float* y, const Run& run, int64_t row, int64_t count) {
  float packed[kPieceEntries * kDenseRows];
  int64_t first = 0;
  do {
    const int64_t left = rows.entries - first;
    const int64_t entries = left < kPieceEntries ? left : kPieceEntries;
    const float* last_bias = bias && entries == left ? bias + row : nullptr;
    const auto of_rows = [&](auto several, int64_t r) LUMEN_INLINE_LAMBDA {
      constexpr int kRows = decltype(several)::kRows;
      PackRows<kRows>(rows.weight + (row + r) * rows.row_stride,
                      rows.row_stride, rows.entry + first, entries, packed);
      DenseRows<kRows>({packed, rows.offset + first, entries},
                       last_bias ? last_bias + r : nullptr, x,
                       y + r * run.y_row * kLanes, run, first > 0);
    };
    int64_t r = 0;
    for (; r + kDenseRows <= count; r += kDenseRows) {
      of_rows(RowCount<kDenseRows>{}, r);
    }
    for (; r < count; ++r) of_rows(RowCount<1>{}, r);
    first += entries;
  } while (first < rows.entries);
}

void Dense(DenseView rows, const float* bias, const float* x, float* y, Run run,
           int accumulate, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; row += kPieceRows) {
    const int64_t count =
        row_end - row < kPieceRows ? row_end - row : kPieceRows;
    float* to = y + row * run.y_row * kLanes;
    if (!accumulate) {
      DensePieces(rows, bias, x, to, run, row, count);
      continue;
    }
    // What is added to cannot be resumed from: through sums of its own.
    alignas(64) float sums[kPieceRows * kPieceVectors * kLanes];
    for (int64_t v = 0; v < run.vectors; v += kPieceVectors) {
      Run part = run;
      part.vectors =
          run.vectors - v < kPieceVectors ? run.vectors - v : kPieceVectors;
      part.y_step = 1;
      part.y_row = part.vectors;
      DensePieces(rows, bias, x + v * run.x_step * kLanes, sums, part, row,
                  count);
      const float* sum = sums;
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t t = 0; t < part.vectors; ++t, sum += kLanes) {
          float* at = to + (r * run.y_row + (v + t) * run.y_step) * kLanes;
          Store(at, Add(Load(at), Load(sum)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
