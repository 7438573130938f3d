// SPDX-License-Identifier: Apache-2.0
// Layers of each type, for the tests that go over the table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layer_bench.h"

namespace lumen::nn {

inline Shape Map(int64_t channels, int64_t height, int64_t width) {
  return {.channels = channels, .height = height, .width = width};
}

inline Shape Volume(int64_t channels, int64_t depth, int64_t height,
                    int64_t width) {
  return {
      .channels = channels, .depth = depth, .height = height, .width = width};
}

// A new row of the table needs examples here.
inline const std::map<std::string, std::vector<Example>>& LayerExamples() {
  static const std::map<std::string, std::vector<Example>> examples = {
      {"linear",
       {{R"("units": 5)", {{.channels = 7}}},
        {R"("units": 1)", {{.channels = 1}}},
        {R"("units": 18, "bias": false)", {{.channels = 3}}}}},
      {"conv2d",
       {{R"("channels": 3, "window": [3], "padding": [1])", {Map(2, 4, 5)}},
        {R"("channels": 2, "window": [1], "bias": true)", {Map(3, 3, 2)}},
        {R"("channels": 2, "window": [1], "stride": [2])", {Map(3, 4, 5)}},
        {R"("channels": 1, "window": [1])", {Map(1, 1, 1)}},
        {R"("channels": 2, "window": [3, 2], "stride": [2, 1],
            "padding": [0, 1], "bias": true)",
         {Map(2, 5, 4)}},
        {R"("channels": 2, "window": [2], "stride": [3])", {Map(2, 6, 7)}},
        {R"("channels": 2, "window": [3], "stride": [2], "padding": [2],
            "dilation": [2])",
         {Map(1, 5, 6)}},
        {R"("channels": 2, "window": [3], "dilation": [1, 2],
            "padding": [3, 4])",
         {Map(1, 2, 2)}},
        {R"("channels": 4, "window": [3], "padding": [1], "groups": 2,
            "bias": true)",
         {Map(4, 3, 3)}},
        {R"("channels": 6, "window": [3], "padding": [1], "stride": [2],
            "groups": 3)",
         {Map(3, 4, 4)}},
        {R"("channels": 2, "window": [1], "groups": 2)", {Map(4, 2, 2)}},
        {R"("channels": 2, "window": [3, 1], "padding": [1, 0])",
         {Map(2, 5, 1)}},
        {R"("channels": 1, "window": [1, 3], "padding": [0, 1])",
         {Map(1, 1, 70)}}}},
      {"batch_norm",
       {{"", {Map(3, 2, 3)}},
        {"", {{.channels = 5}}},
        {R"("group": 16)", {Map(2, 1, 2)}},
        {R"("epsilon": 0.1, "momentum": 0.3)", {Map(1, 3, 1)}},
        {"", {Volume(2, 3, 1, 2)}}}},
      {"group_norm",
       {{R"("groups": 2)", {Map(4, 2, 3)}},
        {R"("groups": 1)", {{.channels = 5}}},
        {R"("groups": 3, "epsilon": 0.1)", {Map(3, 5, 1)}},
        {R"("groups": 1)", {Map(2, 6, 7)}},
        {R"("groups": 2)", {Volume(4, 3, 2, 2)}}}},
      {"max_pool",
       {{R"("window": [2])", {Map(2, 4, 5)}},
        {R"("window": [3], "stride": [2], "padding": [1])", {Map(2, 5, 6)}},
        {R"("window": [2, 3], "stride": [3, 1], "padding": [1, 0])",
         {Map(1, 5, 4)}},
        {R"("window": [1])", {Map(3, 1, 1)}},
        {R"("window": [3], "stride": [1], "padding": [1])", {Map(1, 1, 1)}},
        {R"("window": [3, 1])", {Map(1, 7, 1)}}}},
      {"avg_pool",
       {{R"("window": [2])", {Map(2, 4, 5)}},
        {R"("window": [3], "stride": [2], "padding": [1])", {Map(2, 5, 6)}},
        {R"("window": [2, 3], "stride": [3, 1], "padding": [1, 0])",
         {Map(1, 5, 4)}},
        {R"("window": [1])", {Map(3, 1, 1)}},
        {R"("window": [3], "stride": [1], "padding": [1])", {Map(1, 1, 1)}},
        {R"("window": [3, 1])", {Map(1, 7, 1)}}}},
      {"global_pool",
       {{"", {Map(3, 2, 4)}},
        {"", {Map(1, 1, 1)}},
        {"", {Map(2, 9, 8)}},
        {"", {Volume(2, 3, 2, 5)}}}},
      {"concat",
       {{"", {Map(2, 2, 3), Map(1, 2, 3)}},
        {"", {Volume(2, 3, 1, 2), Volume(1, 3, 1, 2)}},
        {"", {{.channels = 3}, {.channels = 4}, {.channels = 1}}}}},
      {"relu", {{"", {{.channels = 6}}}, {"", {Map(2, 1, 3)}}}},
      {"add",
       {{"", {{.channels = 6}, {.channels = 6}}},
        {"", {Map(2, 3, 2), Map(2, 3, 2)}}}},
      {"dropout",
       {{R"("rate": 0.5)", {{.channels = 9}}},
        {R"("rate": 0)", {{.channels = 3}}},
        {R"("rate": 0.1)", {Map(2, 3, 2)}}}},
      {"flatten", {{"", {Map(2, 2, 3)}}}},
      {"block", {}},          // dissolved by the graph
      {"sparse_linear", {}},  // sparse_linear_test.cc
  };
  return examples;
}

}  // namespace lumen::nn
