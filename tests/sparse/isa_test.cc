// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lumen/core/error.h"

namespace lumen::sparse {
namespace {

using ::testing::HasSubstr;

TEST(Isa, EveryAvailableNameParsesToItself) {
  for (Isa isa : AvailableIsas()) EXPECT_EQ(ParseIsa(IsaName(isa)), isa);
  EXPECT_EQ(ParseIsa("auto"), DetectIsa());
}

TEST(Isa, ScalarIsAlwaysThereAndTheBestIsLast) {
  EXPECT_EQ(AvailableIsas().front(), Isa::kScalar);
  EXPECT_EQ(AvailableIsas().back(), DetectIsa());
}

TEST(Isa, UnknownNamesAreErrorsWithTheKnownOnes) {
  try {
    ParseIsa("sse9");
    FAIL() << "no error";
  } catch (const SpecError& e) {
    EXPECT_THAT(e.what(), HasSubstr("unknown \"sse9\"; known: auto, scalar, "
                                    "avx2, avx512"));
  }
}

TEST(Isa, NamesBeyondThisCpuAreErrorsWithTheBestOne) {
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= DetectIsa()) continue;
    try {
      ParseIsa(IsaName(isa));
      FAIL() << "no error";
    } catch (const SpecError& e) {
      EXPECT_THAT(e.what(), HasSubstr("this CPU cannot run it"));
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
