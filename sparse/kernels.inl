// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once. The including file defines, in its unnamed
// namespace, the type `Vec` of 16 fp32 lanes with
//   Zero() Load(p) Store(p, v) Set1(f) Fma(a, b, c) Add(a, b) Sub Mul Div
//   LoadFirst(p, n) StoreFirst(p, v, n): the first n lanes
//   Stream(p, v): past the caches, p aligned to 64 bytes; Fence() after it
//   Max(a, b): a > b ? a : b, ExpOfNonPositive(v)
//   TreeSums(dot): lane p = 16-lane tree of dot(p), p = 0..15
// the type `Words` of 16 unsigned integers with
//   SetWords(w) LoadWords(p) Xor(a, b) Multiply(a, b, &high, &low)
//   LowHalf(w) HighHalf(w), Keep(half, threshold, v): half >= threshold ? v :
//   +0
// and the constants kIsa, kRunVectors (accumulators of a run), kChains (entries
// of dW summed together), kDenseRows and kDenseVectors, kDwRows and kDwColumns,
// and LUMEN_MORE_VECTORS with the cases above 8 of LUMEN_DISPATCH_VECTORS. No
// std code here: nothing compiled for this instruction set may be shared with
// other files.
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

// Writes or adds the first `count` lanes.
LUMEN_INLINE void Put(Vec sums, int accumulate, int64_t count, float* to) {
  if (count == kLanes) {
    Store(to, accumulate ? Add(Load(to), sums) : sums);
  } else {
    StoreFirst(to, accumulate ? Add(LoadFirst(to, count), sums) : sums, count);
  }
}

}  // namespace
}  // namespace lumen::sparse

#include "sparse/kernels_dense.inl"
#include "sparse/kernels_lanes.inl"
#include "sparse/kernels_products.inl"

namespace lumen::sparse {

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
    .multiply_adds = MultiplyAdds,
    .average = Average,
};

}  // namespace lumen::sparse
