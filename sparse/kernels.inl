// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once. The including file defines, in its unnamed
// namespace, the type `Vec` of 16 fp32 lanes with
//   Zero() Load(p) Store(p, v) Set1(f) Fma(a, b, c) Add(a, b) Sub Mul Div
//   LoadFirst(p, n) StoreFirst(p, v, n): the first n lanes
//   Max(a, b): a > b ? a : b, ExpOfNonPositive(v)
//   TreeSums(dot): lane p = 16-lane tree of dot(p), p = 0..15
// the type `Words` of 16 unsigned integers with
//   SetWords(w) LoadWords(p) Xor(a, b) Multiply(a, b, &high, &low)
//   LowHalf(w) HighHalf(w), Keep(half, threshold, v): half >= threshold ? v :
//   +0
// and the constants kIsa, kRunVectors (accumulators of a run), kChains (entries
// of dW summed together), kDenseRows and kDenseVectors, and LUMEN_MORE_VECTORS
// with the cases above 8 of LUMEN_DISPATCH_VECTORS. No std code here: nothing
// compiled for this instruction set may be shared with other files.
//
// Loops over accumulators are fully unrolled: an accumulator array that lives
// on the stack costs up to 6x (DESIGN section 4).
namespace lumen::sparse {
namespace {

constexpr int64_t kLanes = 16;
#define LUMEN_INLINE inline __attribute__((always_inline))

// Calls function<R>(...) for R = 1..14.
#define LUMEN_DISPATCH_VECTORS(count, function, ...) \
  switch (count) {                                   \
    case 1:                                          \
      function<1>(__VA_ARGS__);                      \
      break;                                         \
    case 2:                                          \
      function<2>(__VA_ARGS__);                      \
      break;                                         \
    case 3:                                          \
      function<3>(__VA_ARGS__);                      \
      break;                                         \
    case 4:                                          \
      function<4>(__VA_ARGS__);                      \
      break;                                         \
    case 5:                                          \
      function<5>(__VA_ARGS__);                      \
      break;                                         \
    case 6:                                          \
      function<6>(__VA_ARGS__);                      \
      break;                                         \
    case 7:                                          \
      function<7>(__VA_ARGS__);                      \
      break;                                         \
    case 8:                                          \
      function<8>(__VA_ARGS__);                      \
      break;                                         \
      LUMEN_MORE_VECTORS(function, __VA_ARGS__)      \
    default:                                         \
      __builtin_unreachable();                       \
  }

// The size of the next block of `left` vectors: as few blocks as possible of at
// most `most`, of about equal size.
LUMEN_INLINE int64_t NextBlock(int64_t left, int64_t most) {
  const int64_t blocks = (left + most - 1) / most;
  return (left + blocks - 1) / blocks;
}

// R outputs of each row; x and y point to the first of them.
template <int R>
void SpmmRows(RowView rows, const float* value, const float* bias,
              const float* x, float* y, int64_t x_step, int64_t y_step,
              int64_t y_row, int accumulate, int64_t row_begin,
              int64_t row_end) {
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
#pragma GCC unroll 16
      for (int t = 0; t < R; ++t) Store(to + t * y_step * kLanes, sum[t]);
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
  for (int64_t at = 0; at < run.vectors;) {
    const int64_t block = NextBlock(run.vectors - at, kRunVectors);
    LUMEN_DISPATCH_VECTORS(block, SpmmRows, rows, value, bias,
                           x + at * run.x_step * kLanes,
                           y + at * run.y_step * kLanes, run.x_step, run.y_step,
                           run.y_row, accumulate, row_begin, row_end)
    at += block;
  }
}

// Writes or adds the first `count` lanes.
LUMEN_INLINE void Put(Vec sums, int accumulate, int64_t count, float* to) {
  if (count == kLanes) {
    Store(to, accumulate ? Add(Load(to), sums) : sums);
  } else {
    StoreFirst(to, accumulate ? Add(LoadFirst(to, count), sums) : sums, count);
  }
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

void DenseDw(const int32_t* offset, int64_t columns, Unit unit, int accumulate,
             float* dw, int64_t row_begin, int64_t row_end) {
  alignas(64) float kept[kLanes * kLanes] = {};
  for (int64_t r = row_begin; r < row_end; ++r) {
    UnitDots(unit, offset, columns, r, accumulate, kept, dw + r * columns);
  }
}

// M rows by R vectors in registers; x and y point to the first vector.
template <int M, int R>
LUMEN_INLINE void DenseBlock(const DenseView& rows, const float* bias,
                             const float* x, float* y, const Run& run,
                             int accumulate, int64_t row) {
  Vec sum[M][R];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) sum[m][t] = Zero();
  }
  const float* weight = rows.weight + row * rows.row_stride;
  for (int64_t i = 0; i < rows.entries; ++i) {
    const float* from = x + int64_t{rows.offset[i]} * kLanes;
    Vec in[R];
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) in[t] = Load(from + t * run.x_step * kLanes);
    const float* w = weight + rows.entry[i];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const Vec v = Set1(w[m * rows.row_stride]);
#pragma GCC unroll 4
      for (int t = 0; t < R; ++t) sum[m][t] = Fma(v, in[t], sum[m][t]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
    float* to = y + (row + m) * run.y_row * kLanes;
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) {
      Vec out = bias ? Add(sum[m][t], Set1(bias[row + m])) : sum[m][t];
      if (accumulate) out = Add(Load(to + t * run.y_step * kLanes), out);
      Store(to + t * run.y_step * kLanes, out);
    }
  }
}

template <int R>
LUMEN_INLINE void DenseRows(const DenseView& rows, const float* bias,
                            const float* x, float* y, const Run& run,
                            int accumulate, int64_t begin, int64_t end) {
  constexpr int kRows = kDenseRows;
  int64_t r = begin;
  for (; r + kRows <= end; r += kRows) {
    DenseBlock<kRows, R>(rows, bias, x, y, run, accumulate, r);
  }
  for (; r < end; ++r) DenseBlock<1, R>(rows, bias, x, y, run, accumulate, r);
}

void Dense(DenseView rows, const float* bias, const float* x, float* y, Run run,
           int accumulate, int64_t row_begin, int64_t row_end) {
  static_assert(kDenseVectors <= 4);
  for (int64_t at = 0; at < run.vectors;) {
    const int64_t block = NextBlock(run.vectors - at, kDenseVectors);
    const float* from = x + at * run.x_step * kLanes;
    float* to = y + at * run.y_step * kLanes;
    if (block == 4) {
      DenseRows<4>(rows, bias, from, to, run, accumulate, row_begin, row_end);
    } else if (block == 3) {
      DenseRows<3>(rows, bias, from, to, run, accumulate, row_begin, row_end);
    } else if (block == 2) {
      DenseRows<2>(rows, bias, from, to, run, accumulate, row_begin, row_end);
    } else {
      DenseRows<1>(rows, bias, from, to, run, accumulate, row_begin, row_end);
    }
    at += block;
  }
}

// The 16-lane tree of one vector.
LUMEN_INLINE float Tree(Vec v) {
  alignas(64) float a[kLanes];
  Store(a, v);
#pragma GCC unroll 4
  for (int step = 8; step > 0; step /= 2) {
#pragma GCC unroll 8
    for (int l = 0; l < step; ++l) a[l] += a[l + step];
  }
  return a[0];
}

void BiasGradient(Unit unit, int accumulate, float* db, int64_t row_begin,
                  int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    Vec sum = Zero();
    for (int64_t s = 0; s < unit.count; ++s) {
      const Segment& segment = unit.segments[s];
      const float* d = segment.dy + r * unit.dy_row * kLanes;
      for (int64_t v = 0; v < segment.vectors; ++v) {
        sum = Add(sum, Load(d + v * unit.dy_step * kLanes));
      }
    }
    const float total = Tree(sum);
    db[r] = accumulate ? db[r] + total : total;
  }
}

constexpr int64_t kPiece = 64;  // vectors summed in fp32

// Adds the lanes to sum in double.
LUMEN_INLINE void AddLanes(Vec piece, double* sum) {
  alignas(64) float lanes[kLanes];
  Store(lanes, piece);
  for (int64_t l = 0; l < kLanes; ++l) sum[l] += static_cast<double>(lanes[l]);
}

// One term per vector: add(v, so_far). Four chains hide the latency.
template <class AddTerm>
LUMEN_INLINE void SumPieces(int64_t n, double* sum, const AddTerm& add) {
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = n - begin < kPiece ? n : begin + kPiece;
    Vec a[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) a[i] = Zero();
    int64_t v = begin;
    for (; v + 4 <= end; v += 4) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) a[i] = add(v + i, a[i]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      if (v + i < end) a[i] = add(v + i, a[i]);
    }
    AddLanes(Add(Add(a[0], a[1]), Add(a[2], a[3])), sum);
  }
}

void LaneSum(const float* x, int64_t n, double* sum) {
  SumPieces(n, sum, [=](int64_t v, Vec so_far) LUMEN_INLINE_LAMBDA {
    return Add(so_far, Load(x + v * kLanes));
  });
}

void LaneSquares(const float* x, const float* mean, int64_t n, double* sum) {
  const Vec m = Load(mean);
  SumPieces(n, sum, [=](int64_t v, Vec so_far) LUMEN_INLINE_LAMBDA {
    const Vec d = Sub(Load(x + v * kLanes), m);
    return Fma(d, d, so_far);
  });
}

void LaneProducts(const float* dy, const float* x, const float* mean, int64_t n,
                  double* sum_dy, double* sum_product) {
  const Vec m = Load(mean);
  // Piece by piece, so that dy is read once from memory.
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t count = n - begin < kPiece ? n - begin : kPiece;
    const float* d = dy + begin * kLanes;
    const float* from = x + begin * kLanes;
    LaneSum(d, count, sum_dy);
    SumPieces(count, sum_product,
              [=](int64_t v, Vec so_far) LUMEN_INLINE_LAMBDA {
                return Fma(Load(d + v * kLanes),
                           Sub(Load(from + v * kLanes), m), so_far);
              });
  }
}

void LaneAffine(const float* x, const float* mean, const float* scale,
                const float* shift, float* y, int64_t n) {
  const Vec m = Load(mean), s = Load(scale), t = Load(shift);
  for (int64_t v = 0; v < n; ++v) {
    Store(y + v * kLanes, Fma(Sub(Load(x + v * kLanes), m), s, t));
  }
}

void LaneAffineGradient(const float* dy, const float* x, const float* mean,
                        const float* a, const float* b, const float* c,
                        int accumulate, float* dx, int64_t n) {
  const Vec m = Load(mean), va = Load(a), vb = Load(b), vc = Load(c);
  for (int64_t v = 0; v < n; ++v) {
    const Vec rest = Fma(vb, Sub(Load(x + v * kLanes), m), vc);
    const Vec out = Fma(va, Load(dy + v * kLanes), rest);
    float* to = dx + v * kLanes;
    Store(to, accumulate ? Add(Load(to), out) : out);
  }
}

// Philox4x32-10 of core/philox.h in 16 lanes that differ in the sample only.
LUMEN_INLINE void PhiloxLanes(const uint32_t* key, uint32_t element,
                              Words sample_low, Words sample_high,
                              uint32_t epoch, Words word[4]) {
  Words c0 = SetWords(element);
  Words c1 = sample_low;
  Words c2 = sample_high;
  Words c3 = SetWords(epoch);
  uint32_t k0 = key[0];
  uint32_t k1 = key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    Words a_high, a_low, b_high, b_low;
    Multiply(c0, SetWords(0xD2511F53), &a_high, &a_low);
    Multiply(c2, SetWords(0xCD9E8D57), &b_high, &b_low);
    c0 = Xor(Xor(b_high, c1), SetWords(k0));
    c1 = b_low;
    c2 = Xor(Xor(a_high, c3), SetWords(k1));
    c3 = a_low;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}

void Dropout(RandomKey key, uint32_t epoch, const uint64_t* sample,
             uint32_t threshold, float scale, const float* x, float* y,
             int64_t elements, int64_t stride) {
  uint32_t keys[2];
  __builtin_memcpy(keys, &key, sizeof(keys));
  uint32_t low[kLanes], high[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    low[l] = static_cast<uint32_t>(sample[l]);
    high[l] = static_cast<uint32_t>(sample[l] >> 32);
  }
  const Words sample_low = LoadWords(low);
  const Words sample_high = LoadWords(high);
  const Words least = SetWords(threshold);
  const Vec factor = Set1(scale);
  for (int64_t begin = 0; begin < elements; begin += 8) {
    Words word[4];
    PhiloxLanes(keys, static_cast<uint32_t>(begin / 8), sample_low, sample_high,
                epoch, word);
#pragma GCC unroll 8
    for (int e = 0; e < 8; ++e) {
      if (begin + e >= elements) break;
      const Words half = e % 2 ? HighHalf(word[e / 2]) : LowHalf(word[e / 2]);
      const int64_t at = (begin + e) * stride;
      Store(y + at, Keep(half, least, Mul(Load(x + at), factor)));
    }
  }
}

void Softmax(float* logits, int64_t classes, int64_t stride, float* max_out,
             float* sum_out) {
  Vec largest = Set1(-__builtin_inff());
  for (int64_t c = 0; c < classes; ++c) {
    largest = Max(largest, Load(logits + c * stride));
  }
  Vec sum = Zero();
  for (int64_t c = 0; c < classes; ++c) {
    float* at = logits + c * stride;
    const Vec e = ExpOfNonPositive(Sub(Load(at), largest));
    Store(at, e);
    sum = Add(sum, e);
  }
  for (int64_t c = 0; c < classes; ++c) {
    float* at = logits + c * stride;
    Store(at, Div(Load(at), sum));
  }
  Store(max_out, largest);
  Store(sum_out, sum);
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

double SumOfSquares(const float* x, int64_t n) {
  constexpr int64_t kUnit = 1024;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kUnit) {
    const int64_t end = begin + kUnit < n ? begin + kUnit : n;
    Vec a = Zero();
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Vec v = Load(x + i);
      a = Fma(v, v, a);
    }
    if (i < end) {
      alignas(64) float tail[kLanes] = {};
      for (int64_t l = 0; i + l < end; ++l) tail[l] = x[i + l];
      const Vec v = Load(tail);
      a = Fma(v, v, a);
    }
    sum += Tree(a);
  }
  return sum;
}

}  // namespace

extern const KernelTable LUMEN_KERNEL_TABLE = {
    .isa = kIsa,
    .spmm = Spmm,
    .sddmm = Sddmm,
    .dense = Dense,
    .dense_dw = DenseDw,
    .bias_gradient = BiasGradient,
    .sum_rows = SumRows,
    .lane_sum = LaneSum,
    .lane_squares = LaneSquares,
    .lane_products = LaneProducts,
    .lane_affine = LaneAffine,
    .lane_affine_gradient = LaneAffineGradient,
    .relu = Relu,
    .relu_backward = ReluBackward,
    .dropout = Dropout,
    .softmax = Softmax,
    .sgd = Sgd,
    .add = Add,
    .sum = Sum,
    .scale = Scale,
    .sum_of_squares = SumOfSquares,
    .all_finite = AllFinite,
    .adam = Adam,
    .average = Average,
};

}  // namespace lumen::sparse
