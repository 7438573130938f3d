// SPDX-License-Identifier: Apache-2.0
// Sums of rows: every instruction set against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lumen/sparse/kernels.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

class RowKernels : public PerIsaTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, RowKernels,
                         ::testing::ValuesIn(AvailableIsas()), NameOfIsa);

TEST_P(RowKernels, SumRowsEqualsTheDefinition) {
  constexpr int64_t kColumns[] = {1,   2,   15,  16,  17,  31,  32,  48, 100,
                                  127, 128, 129, 224, 225, 240, 255, 512};
  Source source(3);
  for (Values values : {Values::kOrdinary, Values::kFinite}) {
    for (int64_t columns : kColumns) {
      for (int64_t entries : {0, 1, 2, 7, 40}) {
        constexpr int64_t kRows = 30;
        // One float off any alignment.
        const auto rows = source.Floats(kRows * columns + 1, values);
        const auto value = source.Floats(entries, values);
        const auto bias = source.Floats(columns, values);
        std::vector<int32_t> index;
        for (int64_t i = 0; i < entries; ++i) {
          index.push_back(static_cast<int32_t>(source.Int(0, kRows)));
        }
        for (const float* b :
             {static_cast<const float*>(nullptr), bias.data()}) {
          std::vector<float> expected;
          for (int64_t c = 0; c < columns; ++c) {
            float sum = 0;
            for (size_t i = 0; i < index.size(); ++i) {
              const auto at = static_cast<size_t>(1 + index[i] * columns + c);
              sum = std::fma(value[i], rows[at], sum);
            }
            expected.push_back(b ? sum + b[c] : sum);
          }
          expected.push_back(9);  // beyond the end
          std::vector<float> y(expected.size(), 9.0f);
          table().sum_rows(index.data(), value.data(), entries, rows.data() + 1,
                           columns, b, y.data());
          ASSERT_TRUE(SameBits(expected, y))
              << columns << " columns, " << entries << " entries";
        }
      }
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
