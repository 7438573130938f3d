// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once. The including file defines, in its unnamed
// namespace, the type `Vec` of 16 fp32 lanes with
//   Zero() Load(p) Store(p, v) Set1(f) Fma(a, b, c) Add(a, b) Sub Mul Div
//   Max(a, b): a > b ? a : b, ExpOfNonPositive(v)
//   TreeSums(dot): lane p = 16-lane tree of dot(p), p = 0..15
// the type `Words` of 16 unsigned integers with
//   SetWords(w) LoadWords(p) Xor(a, b) Multiply(a, b, &high, &low)
//   LowHalf(w) HighHalf(w), Keep(half, threshold, v): half >= threshold ? v :
//   +0
// and the constants kIsa, kDenseRows and kDenseVectors. No std code here:
// nothing compiled for this instruction set may be shared with other files.
//
// Loops over accumulators are fully unrolled: an accumulator array that lives
// on the stack costs up to 6x (DESIGN section 4).
namespace lumen::sparse {
namespace {

constexpr int64_t kLanes = 16;
#define LUMEN_INLINE inline __attribute__((always_inline))

// Calls body(integral constant R) for R = 1..8.
#define LUMEN_DISPATCH_VECTORS(count, function, ...) \
  switch (count) {                                   \
    case 1:                                          \
      return function<1>(__VA_ARGS__);               \
    case 2:                                          \
      return function<2>(__VA_ARGS__);               \
    case 3:                                          \
      return function<3>(__VA_ARGS__);               \
    case 4:                                          \
      return function<4>(__VA_ARGS__);               \
    case 5:                                          \
      return function<5>(__VA_ARGS__);               \
    case 6:                                          \
      return function<6>(__VA_ARGS__);               \
    case 7:                                          \
      return function<7>(__VA_ARGS__);               \
    default:                                         \
      return function<8>(__VA_ARGS__);               \
  }

template <int R>
void SpmmRows(RowView rows, const float* value, const float* bias,
              const float* x, float* y, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    Vec sum[R];
#pragma GCC unroll 8
    for (int t = 0; t < R; ++t) sum[t] = Zero();
    const int64_t end = rows.start[r + 1];
    for (int64_t p = rows.start[r]; p < end; ++p) {
      const Vec v = Set1(value[p]);
      const float* from = x + int64_t{rows.offset[p]} * kLanes;
#pragma GCC unroll 8
      for (int t = 0; t < R; ++t) {
        sum[t] = Fma(v, Load(from + t * kLanes), sum[t]);
      }
    }
    float* to = y + r * R * kLanes;
    if (bias != nullptr) {
      const Vec b = Set1(bias[r]);
#pragma GCC unroll 8
      for (int t = 0; t < R; ++t) sum[t] = Add(sum[t], b);
    }
#pragma GCC unroll 8
    for (int t = 0; t < R; ++t) Store(to + t * kLanes, sum[t]);
  }
}

void Spmm(RowView rows, const float* value, const float* bias, const float* x,
          float* y, int64_t lanes, int64_t row_begin, int64_t row_end){
    LUMEN_DISPATCH_VECTORS(lanes / kLanes, SpmmRows, rows, value, bias, x, y,
                           row_begin, row_end)}

// Writes or adds the first `count` lanes.
LUMEN_INLINE void Put(Vec sums, int accumulate, int64_t count, float* to) {
  if (count == kLanes) {
    Store(to, accumulate ? Add(Load(to), sums) : sums);
    return;
  }
  alignas(64) float part[kLanes];
  Store(part, sums);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = accumulate ? to[i] + part[i] : part[i];
  }
}

// One row of a sampled product: `offset_of(i)` is the input vector of entry i.
template <int G, class OffsetOf>
LUMEN_INLINE void UnitDots(const float* x, int64_t x_stride, const float* dy,
                           int64_t dy_stride, int accumulate, int64_t entries,
                           float* dw, const OffsetOf& offset_of) {
  Vec d[G];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g) d[g] = Load(dy + g * dy_stride);
  for (int64_t begin = 0; begin < entries; begin += kLanes) {
    const int64_t count = entries - begin < kLanes ? entries - begin : kLanes;
    const auto dot = [&](int i) LUMEN_INLINE_LAMBDA {
      // Entries past the end repeat the last one; Put leaves them out.
      const int64_t entry = begin + (i < count ? i : count - 1);
      const float* from = x + offset_of(entry) * kLanes;
      Vec sum = Zero();
#pragma GCC unroll 8
      for (int g = 0; g < G; ++g)
        sum = Fma(d[g], Load(from + g * x_stride), sum);
      return sum;
    };
    Put(TreeSums(dot), accumulate, count, dw + begin);
  }
}

template <int G>
void SddmmRows(RowView rows, UnitView x, UnitView dy, int64_t dy_row_vectors,
               int accumulate, float* dw, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    const int32_t* offset = rows.offset + rows.start[r];
    const int64_t entries = rows.start[r + 1] - rows.start[r];
    const auto offset_of = [=](int64_t i) { return int64_t{offset[i]}; };
    const float* d = dy.base + r * dy_row_vectors * kLanes;
    float* to = dw + rows.start[r];
    // Constant strides, the usual case, become part of the addresses.
    if (x.group_stride == kLanes && dy.group_stride == kLanes) {
      UnitDots<G>(x.base, kLanes, d, kLanes, accumulate, entries, to,
                  offset_of);
    } else {
      UnitDots<G>(x.base, x.group_stride, d, dy.group_stride, accumulate,
                  entries, to, offset_of);
    }
  }
}

void Sddmm(RowView rows, UnitView x, UnitView dy, int64_t dy_row_vectors,
           int64_t groups, int accumulate, float* dw, int64_t row_begin,
           int64_t row_end) {
  LUMEN_DISPATCH_VECTORS(groups, SddmmRows, rows, x, dy, dy_row_vectors,
                         accumulate, dw, row_begin, row_end)
}

template <int G>
void DenseDwRows(UnitView x, int64_t x_column_vectors, UnitView dy,
                 int64_t dy_row_vectors, int accumulate, float* dw,
                 int64_t columns, int64_t row_begin, int64_t row_end) {
  const auto offset_of = [=](int64_t k) { return k * x_column_vectors; };
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* d = dy.base + r * dy_row_vectors * kLanes;
    float* to = dw + r * columns;
    if (x.group_stride == kLanes && dy.group_stride == kLanes) {
      UnitDots<G>(x.base, kLanes, d, kLanes, accumulate, columns, to,
                  offset_of);
    } else {
      UnitDots<G>(x.base, x.group_stride, d, dy.group_stride, accumulate,
                  columns, to, offset_of);
    }
  }
}

void DenseDw(UnitView x, int64_t x_column_vectors, UnitView dy,
             int64_t dy_row_vectors, int64_t groups, int accumulate, float* dw,
             int64_t columns, int64_t row_begin, int64_t row_end) {
  LUMEN_DISPATCH_VECTORS(groups, DenseDwRows, x, x_column_vectors, dy,
                         dy_row_vectors, accumulate, dw, columns, row_begin,
                         row_end)
}

// M outputs by R vectors in registers: out[m] = sum over i in order of
// weight[m * m_stride + i * i_stride] * in[i], plus bias[m] when not null.
template <int M, int R>
LUMEN_INLINE void DenseBlock(const float* weight, int64_t m_stride,
                             int64_t i_stride, int64_t inputs,
                             const float* bias, const float* in, float* out,
                             int64_t lanes) {
  Vec sum[M][R];
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) sum[m][t] = Zero();
  }
  for (int64_t i = 0; i < inputs; ++i) {
    Vec x[R];
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) x[t] = Load(in + i * lanes + t * kLanes);
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const Vec w = Set1(weight[m * m_stride + i * i_stride]);
#pragma GCC unroll 4
      for (int t = 0; t < R; ++t) sum[m][t] = Fma(w, x[t], sum[m][t]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int t = 0; t < R; ++t) {
      const Vec y = bias ? Add(sum[m][t], Set1(bias[m])) : sum[m][t];
      Store(out + m * lanes + t * kLanes, y);
    }
  }
}

template <int R>
LUMEN_INLINE void DenseColumns(const float* weight, int64_t m_stride,
                               int64_t i_stride, int64_t inputs,
                               const float* bias, const float* in, float* out,
                               int64_t lanes, int64_t begin, int64_t end) {
  constexpr int kRows = kDenseRows;
  int64_t m = begin;
  for (; m + kRows <= end; m += kRows) {
    DenseBlock<kRows, R>(weight + m * m_stride, m_stride, i_stride, inputs,
                         bias ? bias + m : nullptr, in, out + m * lanes, lanes);
  }
  for (; m < end; ++m) {
    DenseBlock<1, R>(weight + m * m_stride, m_stride, i_stride, inputs,
                     bias ? bias + m : nullptr, in, out + m * lanes, lanes);
  }
}

// All lanes, kDenseVectors vectors at a time.
void DenseProduct(const float* weight, int64_t m_stride, int64_t i_stride,
                  int64_t inputs, const float* bias, const float* in,
                  float* out, int64_t lanes, int64_t begin, int64_t end) {
  int64_t at = 0;
  for (; at + kDenseVectors * kLanes <= lanes; at += kDenseVectors * kLanes) {
    DenseColumns<kDenseVectors>(weight, m_stride, i_stride, inputs, bias,
                                in + at, out + at, lanes, begin, end);
  }
  for (; at < lanes; at += kLanes) {
    DenseColumns<1>(weight, m_stride, i_stride, inputs, bias, in + at, out + at,
                    lanes, begin, end);
  }
}

void DenseForward(const float* weight, const float* bias, const float* x,
                  float* y, int64_t columns, int64_t lanes, int64_t row_begin,
                  int64_t row_end) {
  DenseProduct(weight, columns, 1, columns, bias, x, y, lanes, row_begin,
               row_end);
}

void DenseDx(const float* weight, const float* dy, float* dx, int64_t rows,
             int64_t columns, int64_t lanes, int64_t column_begin,
             int64_t column_end) {
  DenseProduct(weight, 1, columns, rows, nullptr, dy, dx, lanes, column_begin,
               column_end);
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

void BiasGradient(UnitView dy, int64_t dy_row_vectors, int64_t groups,
                  int accumulate, float* db, int64_t row_begin,
                  int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* d = dy.base + r * dy_row_vectors * kLanes;
    Vec sum = Zero();
    for (int64_t g = 0; g < groups; ++g) {
      sum = Add(sum, Load(d + g * dy.group_stride));
    }
    const float total = Tree(sum);
    db[r] = accumulate ? db[r] + total : total;
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
    .dense_forward = DenseForward,
    .dense_dx = DenseDx,
    .dense_dw = DenseDw,
    .bias_gradient = BiasGradient,
    .relu = Relu,
    .relu_backward = ReluBackward,
    .dropout = Dropout,
    .softmax = Softmax,
    .sgd = Sgd,
    .add = Add,
    .scale = Scale,
    .sum_of_squares = SumOfSquares,
    .all_finite = AllFinite,
    .adam = Adam,
    .average = Average,
};

}  // namespace lumen::sparse
