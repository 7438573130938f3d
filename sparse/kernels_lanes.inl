// SPDX-License-Identifier: Apache-2.0
// What goes lane by lane over an activation: sums for statistics and biases,
// normalisation, dropout, softmax. Part of kernels.inl.
namespace lumen::sparse {
namespace {

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

constexpr int kPeakChains = 6;  // enough for two units of latency 5 or less

void MultiplyAdds(int64_t rounds, float* out) {
  Vec chain[kPeakChains];
#pragma GCC unroll 6
  for (int c = 0; c < kPeakChains; ++c) chain[c] = Load(out);
  const Vec factor = Set1(0.5f), term = Set1(1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 6
    for (int c = 0; c < kPeakChains; ++c) {
      chain[c] = Fma(chain[c], factor, term);
    }
  }
#pragma GCC unroll 5
  for (int c = 1; c < kPeakChains; ++c) chain[0] = Add(chain[0], chain[c]);
  Store(out, chain[0]);
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
}  // namespace lumen::sparse
