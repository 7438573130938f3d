// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences, for the tests of nn.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "network.h"

namespace lumen::nn {

inline void ExpectNumericGradient(Network* network, float step = 4e-3f) {
  network->ForwardBackward();
  const std::vector<float> gradient = network->gradient;
  const auto values = network->model->parameters().values();
  // The arena keeps outputs apart from gradients that are still needed, and the
  // mask of a dropout is the same in each of these passes.
  for (size_t i = 0; i < values.size(); ++i) {
    const float old = values[i];
    values[i] = old + step;
    const double above = network->Forward().loss;
    values[i] = old - step;
    const double below = network->Forward().loss;
    values[i] = old;
    const double numeric = (above - below) / (2 * double{step});
    EXPECT_NEAR(gradient[i], numeric, 5e-3 * std::abs(numeric) + 2e-2)
        << "parameter " << i;
  }
}

}  // namespace lumen::nn
