// SPDX-License-Identifier: Apache-2.0
// State that survives a restart: the oracle knows no ranks, so state that can
// be exchanged with it fits any number of ranks.
#include <gtest/gtest.h>

#include "exchange_oracle.h"
#include "mpi_main.h"

namespace lumen::comm {
namespace {

using Vector = std::vector<float>;

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const ExchangeRow& row : Exchanges()) {
    for (const int64_t n : {1, 10, 5000}) {
      Case c;
      c.type = row.type;
      c.parameters = n;
      c.bucket = 900;
      c.density = 0.05;
      cases.push_back(c);
    }
  }
  return cases;
}

void Restore(const Oracle& oracle, Engine* engine) {
  for (const int s : engine->hosted()) {
    for (const ExchangeState& state : (*engine)->ShardState(s)) {
      std::copy(oracle.residual[s].begin(), oracle.residual[s].end(),
                state.values.begin());
    }
  }
  if ((*engine)->has_owner_state()) {
    (*engine)->ScatterOwnerState(
        World()->rank() == 0 ? std::span<const float>(oracle.owner_residual)
                             : std::span<const float>());
  }
}

TEST(ExchangeState, ARestoredExchangeContinuesWithTheSameBits) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.Text());
    Oracle oracle(c);
    for (int step = 0; step < 3; ++step) oracle.Step(TestGradients(step, c));
    Engine engine(c);
    Vector sum;
    engine.Step(TestGradients(50, c), &sum);  // state that is overwritten
    Restore(oracle, &engine);
    for (int step = 3; step < 6; ++step) {
      const auto gradient = TestGradients(step, c);
      ASSERT_TRUE(engine.Step(gradient, &sum));
      ASSERT_EQ(BitsOf(sum), BitsOf(oracle.Step(gradient)));
    }
  }
}

TEST(ExchangeState, GatherReturnsWhatScatterGave) {
  for (const Case& c : Cases()) {
    for (const int64_t chunk : {int64_t{7}, int64_t{1} << 30}) {
      World()->set_chunk_bytes(chunk);
      Engine engine(c);
      if (!engine->has_owner_state()) continue;
      const Vector whole = TestGradient(0, 1, c.parameters);
      engine->ScatterOwnerState(World()->rank() == 0
                                    ? std::span<const float>(whole)
                                    : std::span<const float>());
      const Vector back = engine.OwnerState();
      if (World()->rank() == 0) {
        EXPECT_EQ(BitsOf(back), BitsOf(whole));
      }
    }
    World()->set_chunk_bytes(int64_t{1} << 30);
  }
}

}  // namespace
}  // namespace lumen::comm
