// SPDX-License-Identifier: Apache-2.0
// Every exchange against the naive oracle, on as many ranks as mpirun starts.
#include "lumen/comm/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "exchange_oracle.h"
#include "mpi_main.h"

namespace lumen::comm {
namespace {

using Vector = std::vector<float>;

// All ranks hold the same bits, those of the oracle; so does the state.
void ExpectLikeOracle(const Case& c, int steps) {
  SCOPED_TRACE(c.Text());
  Oracle oracle(c);
  Engine engine(c);
  Vector sum;
  for (int step = 0; step < steps; ++step) {
    const auto gradient = TestGradients(step, c);
    ASSERT_TRUE(engine.Step(gradient, &sum));
    const Vector expected = oracle.Step(gradient);
    ASSERT_EQ(BitsOf(sum), BitsOf(expected)) << "step " << step;
  }
  for (const int s : engine.hosted()) {
    for (const ExchangeState& state : engine->ShardState(s)) {
      EXPECT_EQ(state.name, "residual");
      EXPECT_EQ(BitsOf(state.values), BitsOf(oracle.residual[s]));
    }
  }
  if (!engine->has_owner_state()) return;
  const Vector owner = engine.OwnerState();
  if (World()->rank() == 0) {
    EXPECT_EQ(BitsOf(owner), BitsOf(oracle.owner_residual));
  }
}

// Each row of the table, split once per value code.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const ExchangeRow& row : Exchanges()) {
    Case c;
    c.type = row.type;
    if (row.type == "dense") {
      cases.push_back(c);
      continue;
    }
    for (const char* values : {"fp32", "bf16", "int8"}) {
      c.values = values;
      cases.push_back(c);
    }
  }
  return cases;
}

TEST(Exchange, SumIsIdenticalOnAllRanksAndEqualsTheOracle) {
  for (Case c : AllCases()) {
    for (const int64_t n : {0, 1, 10, 1000, 100000}) {
      c.parameters = n;
      c.bucket = n > 1000 ? 30000 : 600;
      ExpectLikeOracle(c, n > 1000 ? 3 : 8);
    }
  }
}

TEST(Exchange, BitsDoNotDependOnThreads) {
  for (Case c : AllCases()) {
    c.parameters = 70000;
    c.threads = 3;
    c.clip_norm = 0.5;
    ExpectLikeOracle(c, 2);
  }
}

TEST(Exchange, AnyNumberOfShardsRegionsAndDensitiesIsLegal) {
  for (const int shards : {7, 9, 16}) {
    for (Case c : AllCases()) {
      c.shards = shards;
      c.parameters = 2000;
      c.bucket = 999;
      c.regions = 5;
      c.density = 0.3;
      c.out_density = 0.6;
      ExpectLikeOracle(c, 3);
      c.regions = 1;
      c.density = 1e-9;  // one entry
      c.out_density = 0;
      ExpectLikeOracle(c, 3);
      c.density = 1;
      ExpectLikeOracle(c, 3);
    }
  }
}

TEST(Exchange, ClippingLimitsTheNorm) {
  for (Case c : AllCases()) {
    c.bucket = 300;
    c.clip_norm = 0.25;
    ExpectLikeOracle(c, 4);
    c.clip_norm = 1e6;  // never reached
    ExpectLikeOracle(c, 2);
  }
}

TEST(Exchange, DenseClippingActsOnTheSum) {
  Case c;
  c.type = "dense";
  c.clip_norm = 0.25;
  Engine engine(c);
  Vector sum;
  ASSERT_TRUE(engine.Step(TestGradients(1, c), &sum));
  double square_sum = 0;
  for (const float v : sum) square_sum += static_cast<double>(v) * v;
  EXPECT_NEAR(std::sqrt(square_sum), 0.25, 1e-6);
}

TEST(Exchange, AllZeroGradientsGiveZerosAndNoNan) {
  for (Case c : AllCases()) {
    c.clip_norm = 1;
    Engine engine(c);
    Vector sum;
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(engine.Step(
          std::vector<Vector>(c.shards, Vector(c.parameters)), &sum));
      EXPECT_EQ(sum, Vector(c.parameters));
    }
  }
}

TEST(Exchange, AShardWithoutSamplesAddsNothing) {
  // Its gradient is zero, already divided by the global count of samples.
  for (Case c : AllCases()) {
    c.clip_norm = 0.5;
    Oracle oracle(c);
    Engine engine(c);
    auto gradient = TestGradients(0, c);
    gradient[3].assign(c.parameters, 0.0f);
    Vector sum;
    ASSERT_TRUE(engine.Step(gradient, &sum));
    EXPECT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
  }
}

TEST(Exchange, TiesAreCutTheSameWayEverywhere) {
  for (Case c : AllCases()) {
    c.density = 0.1;
    Oracle oracle(c);
    Engine engine(c);
    Vector sum;
    for (int step = 0; step < 12; ++step) {
      std::vector<Vector> gradient(c.shards, Vector(c.parameters, 0.5f));
      gradient[step % c.shards][step] = -0.5f;
      ASSERT_TRUE(engine.Step(gradient, &sum));
      ASSERT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
    }
  }
}

// What was put in is what came out plus what is kept.
TEST(Exchange, NoMassIsLost) {
  for (Case c : AllCases()) {
    if (c.type == "dense") continue;
    SCOPED_TRACE(c.Text());
    c.parameters = 500;
    c.bucket = 200;
    c.density = 0.02;
    Engine engine(c);
    std::vector<double> balance(c.parameters);  // in - out, rank 0's view
    Vector sum;
    const int steps = 200;
    for (int step = 0; step < steps; ++step) {
      const auto gradient = TestGradients(step, c);
      ASSERT_TRUE(engine.Step(gradient, &sum));
      for (int64_t i = 0; i < c.parameters; ++i) {
        for (const Vector& g : gradient) balance[i] += g[i];
        balance[i] -= sum[i];
      }
    }
    const Vector owner = engine.OwnerState();
    Vector kept(c.parameters);
    for (const int s : engine.hosted()) {
      const auto residual = engine->ShardState(s).at(0).values;
      for (int64_t i = 0; i < c.parameters; ++i) kept[i] += residual[i];
    }
    const auto all = World()->AllGather(std::as_bytes(std::span(kept)));
    if (World()->rank() != 0) continue;
    for (int64_t i = 0; i < c.parameters; ++i) {
      double rest = owner[i];
      for (const auto& bytes : all) {
        rest += reinterpret_cast<const float*>(bytes.data())[i];
      }
      EXPECT_NEAR(balance[i], rest, 2e-5) << i;
    }
  }
}

TEST(Exchange, ErrorFeedbackLetsEveryEntryThroughInTime) {
  // A constant gradient: what arrives on average is the gradient.
  Case c;
  c.parameters = 200;
  c.density = 0.05;
  Engine engine(c);
  const auto gradient = TestGradients(0, c);
  std::vector<double> got(c.parameters);
  Vector sum;
  const int steps = 1500;
  for (int step = 0; step < steps; ++step) {
    ASSERT_TRUE(engine.Step(gradient, &sum));
    for (int64_t i = 0; i < c.parameters; ++i) got[i] += sum[i];
  }
  for (int64_t i = 0; i < c.parameters; ++i) {
    double expected = 0;
    for (const Vector& g : gradient) expected += g[i];
    EXPECT_NEAR(got[i] / steps, expected, 0.02) << i;
  }
}

TEST(Exchange, ANonFiniteGradientIsRefusedByAllAndChangesNothing) {
  const float bad_values[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
  for (Case c : AllCases()) {
    for (const double clip : {0.0, 0.5}) {
      c.clip_norm = clip;
      c.bucket = 300;
      Oracle oracle(c);
      Engine engine(c);
      Vector sum;
      for (int step = 0; step < 6; ++step) {
        const auto gradient = TestGradients(step, c);
        if (step % 2 == 1) {  // one bad entry in one shard
          auto bad = gradient;
          bad[(3 * step) % c.shards][101 * step] = bad_values[step / 2];
          EXPECT_FALSE(engine.Step(bad, &sum));
          EXPECT_EQ(sum, Vector(c.parameters, 12345.0f)) << "sink was called";
        }
        ASSERT_TRUE(engine.Step(gradient, &sum));
        ASSERT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
      }
    }
  }
}

TEST(Exchange, AnOverflowOfTheSumIsRefusedByAllAndChangesNothing) {
  for (Case c : AllCases()) {
    Oracle oracle(c);
    Engine engine(c);
    Vector sum;
    const auto gradient = TestGradients(0, c);
    ASSERT_TRUE(engine.Step(gradient, &sum));
    oracle.Step(gradient);
    auto huge = gradient;
    for (Vector& g : huge) g[17] = 3e38f;
    EXPECT_FALSE(engine.Step(huge, &sum));
    ASSERT_TRUE(engine.Step(gradient, &sum));
    EXPECT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
  }
}

TEST(Exchange, DiscardAfterAGoodReduceLeavesTheState) {
  for (const Case& c : AllCases()) {
    Oracle oracle(c);
    Engine engine(c);
    Vector sum;
    for (int step = 0; step < 3; ++step) {
      const auto gradient = TestGradients(step, c);
      ASSERT_TRUE(engine.Step(gradient, &sum));
      ASSERT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
      // Another rank voted against the step.
      const auto refused = TestGradients(100 + step, c);
      for (const int s : engine.hosted()) {
        std::copy(refused[s].begin(), refused[s].end(),
                  engine->Gradient(s).begin());
        engine->Add(s, 0);
      }
      ASSERT_TRUE(engine->Reduce([](int, std::span<const float>) {}));
      engine->Discard();
    }
  }
}

TEST(Exchange, DiscardBeforeReduceLeavesTheState) {
  for (const Case& c : AllCases()) {
    Oracle oracle(c);
    Engine engine(c);
    Vector sum;
    for (const int s : engine.hosted()) {
      engine->Gradient(s)[5] = 9;
      engine->Add(s, 0);
    }
    engine->Discard();
    const auto gradient = TestGradients(0, c);
    ASSERT_TRUE(engine.Step(gradient, &sum));
    EXPECT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
  }
}

TEST(Exchange, BytesOnTheWireAndInMemoryAreThoseOfThePlan) {
  for (Case c : AllCases()) {
    c.parameters = 400000;
    c.bucket = 1 << 20;
    Engine engine(c);
    Vector sum;
    ASSERT_TRUE(engine.Step(TestGradients(0, c), &sum));
    const int64_t before = World()->bytes_sent();
    ASSERT_TRUE(engine.Step(TestGradients(1, c), &sum));
    const int64_t mine[] = {World()->bytes_sent() - before,
                            engine->memory_bytes()};
    int64_t all = 0;
    int64_t memory = 0;
    for (const auto& bytes :
         World()->AllGather(std::as_bytes(std::span(mine)))) {
      const auto* theirs = reinterpret_cast<const int64_t*>(bytes.data());
      all += theirs[0];
      memory = std::max(memory, theirs[1]);
    }
    for (const ExchangeRow& row : Exchanges()) {
      if (row.type != c.type) continue;
      const auto plan = row.plan(c.Options(), World()->ranks());
      EXPECT_NEAR(static_cast<double>(all), plan.wire_bytes_step,
                  0.03 * plan.wire_bytes_step);
      EXPECT_NEAR(static_cast<double>(memory), static_cast<double>(plan.bytes),
                  0.03 * static_cast<double>(plan.bytes));
      if (World()->rank() == 0) {
        std::printf("%s %s: %lld bytes on the wire per step, planned %.0f\n",
                    c.type.c_str(), c.values.c_str(),
                    static_cast<long long>(all), plan.wire_bytes_step);
      }
    }
  }
}

}  // namespace
}  // namespace lumen::comm
