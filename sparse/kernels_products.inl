// SPDX-License-Identifier: Apache-2.0
// Products with sparse rows: spmm, sddmm and sum_rows. Part of kernels.inl.
namespace lumen::sparse {
namespace {

// R outputs of each row; x and y point to the first of them.
template <int R>
void SpmmRows(RowView rows, const float* value, const float* bias,
              const float* x, float* y, const Run& geometry, int accumulate,
              int64_t row_begin, int64_t row_end) {
  const int64_t x_step = geometry.x_step;
  const int64_t y_step = geometry.y_step;
  const int64_t y_row = geometry.y_row;
  // With a constant step, the usual case, addresses are folded.
  const auto run = [&](auto step_of) LUMEN_INLINE_LAMBDA {
    for (int64_t r = row_begin; r < row_end; ++r) {
      float* to = y + r * y_row * kLanes;
      Vec sum[R];
      if (accumulate == kResume) {
#pragma GCC unroll 16
        for (int t = 0; t < R; ++t) sum[t] = Load(to + t * y_step * kLanes);
      } else {
#pragma GCC unroll 16
        for (int t = 0; t < R; ++t) sum[t] = Zero();
      }
      for (int64_t q = 0; q < rows.parts; ++q) {
        const int64_t at = q * rows.part_stride + r;
        const int64_t end = rows.end[at];
        for (int64_t p = rows.start[at]; p < end; ++p) {
          const Vec v = Set1(value[p]);
          const float* from = x + int64_t{rows.offset[p]} * kLanes;
#pragma GCC unroll 16
          for (int t = 0; t < R; ++t) {
            sum[t] = Fma(v, Load(from + t * step_of() * kLanes), sum[t]);
          }
        }
      }
      if (bias != nullptr) {
        const Vec b = Set1(bias[r]);
#pragma GCC unroll 16
        for (int t = 0; t < R; ++t) sum[t] = Add(sum[t], b);
      }
      if (accumulate == 1) {
#pragma GCC unroll 16
        for (int t = 0; t < R; ++t) {
          sum[t] = Add(Load(to + t * y_step * kLanes), sum[t]);
        }
      }
      if (geometry.stream) {
#pragma GCC unroll 16
        for (int t = 0; t < R; ++t) Stream(to + t * y_step * kLanes, sum[t]);
      } else {
#pragma GCC unroll 16
        for (int t = 0; t < R; ++t) Store(to + t * y_step * kLanes, sum[t]);
      }
    }
  };
  if (x_step == 1) {
    run([] { return int64_t{1}; });
  } else if (x_step == 2) {
    run([] { return int64_t{2}; });
  } else {
    run([=] { return x_step; });
  }
}

void Spmm(RowView rows, const float* value, const float* bias, const float* x,
          float* y, Run run, int accumulate, int64_t row_begin,
          int64_t row_end) {
  run.stream = run.stream && reinterpret_cast<uintptr_t>(y) % 64 == 0;
  for (int64_t at = 0; at < run.vectors;) {
    const int64_t block = NextBlock(run.vectors - at, kRunVectors);
    LUMEN_DISPATCH_VECTORS(
        block, SpmmRows, rows, value, bias, x + at * run.x_step * kLanes,
        y + at * run.y_step * kLanes, run, accumulate, row_begin, row_end)
    at += block;
  }
  if (run.stream) Fence();
}

// The lane sums over a unit of kChains entries, to kept: dy is loaded once for
// all of them. Entries from `count` on repeat the last one.
LUMEN_INLINE void UnitChains(const Unit& unit, const int32_t* offset,
                             int64_t count, int64_t row, float* kept) {
  Vec sum[kChains];
#pragma GCC unroll 8
  for (int e = 0; e < kChains; ++e) sum[e] = Zero();
  for (int64_t s = 0; s < unit.count; ++s) {
    const Segment& segment = unit.segments[s];
    const float* dy = segment.dy + row * unit.dy_row * kLanes;
    const float* from[kChains];
#pragma GCC unroll 8
    for (int e = 0; e < kChains; ++e) {
      from[e] = segment.x + int64_t{offset[e < count ? e : count - 1]} * kLanes;
    }
    const auto add = [&](int64_t x_at, int64_t dy_at) LUMEN_INLINE_LAMBDA {
      const Vec d = Load(dy + dy_at);
#pragma GCC unroll 8
      for (int e = 0; e < kChains; ++e) {
        sum[e] = Fma(d, Load(from[e] + x_at), sum[e]);
      }
    };
    if (segment.vectors == 8 && unit.x_step == 1 && unit.dy_step == 1) {
      // A tile of a linear layer: short, so unrolled.
#pragma GCC unroll 8
      for (int64_t v = 0; v < 8; ++v) add(v * kLanes, v * kLanes);
    } else {
      for (int64_t v = 0; v < segment.vectors; ++v) {
        add(v * unit.x_step * kLanes, v * unit.dy_step * kLanes);
      }
    }
  }
#pragma GCC unroll 8
  for (int e = 0; e < kChains; ++e) Store(kept + e * kLanes, sum[e]);
}

// One row of a sampled product. `kept` holds the lane sums of 16 entries.
void UnitDots(const Unit& unit, const int32_t* offset, int64_t entries,
              int64_t row, int accumulate, float* kept, float* dw) {
  static_assert(kLanes % kChains == 0);
  for (int64_t first = 0; first < entries; first += kLanes) {
    const int64_t count = entries - first < kLanes ? entries - first : kLanes;
    for (int64_t i = 0; i < count; i += kChains) {
      UnitChains(unit, offset + first + i, count - i, row, kept + i * kLanes);
    }
    const Vec sums = TreeSums(
        [&](int i) LUMEN_INLINE_LAMBDA { return Load(kept + i * kLanes); });
    Put(sums, accumulate, count, dw + first);
  }
}

// Part by part, so that what a part reads of x stays near the core.
void Sddmm(RowView rows, Unit unit, int accumulate, float* dw,
           int64_t row_begin, int64_t row_end) {
  alignas(64) float kept[kLanes * kLanes] = {};
  for (int64_t q = 0; q < rows.parts; ++q) {
    for (int64_t r = row_begin; r < row_end; ++r) {
      const int64_t at = q * rows.part_stride + r;
      const int64_t begin = rows.start[at];
      UnitDots(unit, rows.offset + begin, rows.end[at] - begin, r, accumulate,
               kept, dw + (rows.first ? rows.first[at] : begin));
    }
  }
}

// R vectors of columns from `first` on.
template <int R>
void SumRowsBlock(const int32_t* index, const float* value, int64_t entries,
                  const float* rows, int64_t columns, const float* bias,
                  float* y, int64_t first) {
  Vec sum[R];
#pragma GCC unroll 16
  for (int t = 0; t < R; ++t) sum[t] = Zero();
  for (int64_t i = 0; i < entries; ++i) {
    const Vec v = Set1(value[i]);
    const float* from = rows + index[i] * columns + first;
#pragma GCC unroll 16
    for (int t = 0; t < R; ++t) {
      sum[t] = Fma(v, Load(from + t * kLanes), sum[t]);
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < R; ++t) {
    const int64_t at = first + t * kLanes;
    Store(y + at, bias ? Add(sum[t], Load(bias + at)) : sum[t]);
  }
}

void SumRows(const int32_t* index, const float* value, int64_t entries,
             const float* rows, int64_t columns, const float* bias, float* y) {
  const int64_t vectors = columns / kLanes;
  for (int64_t v = 0; v < vectors;) {
    const int64_t block = NextBlock(vectors - v, kRunVectors);
    LUMEN_DISPATCH_VECTORS(block, SumRowsBlock, index, value, entries, rows,
                           columns, bias, y, v * kLanes);
    v += block;
  }
  if (columns % kLanes == 0) return;
  if (vectors > 0) {
    // The last vector once more, further left: the same bits where they meet.
    SumRowsBlock<1>(index, value, entries, rows, columns, bias, y,
                    columns - kLanes);
    return;
  }
  for (int64_t c = 0; c < columns; ++c) {
    float sum = 0;
    for (int64_t i = 0; i < entries; ++i) {
      sum = __builtin_fmaf(value[i], rows[index[i] * columns + c], sum);
    }
    y[c] = bias ? sum + bias[c] : sum;
  }
}

}  // namespace
}  // namespace lumen::sparse
