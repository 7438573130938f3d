// SPDX-License-Identifier: Apache-2.0
// Learning rate schedules: pure functions of the step, so a resumed run cannot
// be off by one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/schema.h"

namespace lumen::train {

struct ScheduleLength {
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 1;
};

// One row per schedule. `progress` runs from 0 to below 1 over the steps after
// the warm-up; `epoch` is the fractional epoch of the step.
struct ScheduleRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  double (*rate)(const Json& spec, double progress, double epoch);
};
std::span<const ScheduleRow> Schedules();
std::vector<Variant> ScheduleVariants();
extern const std::span<const Key> kCommonScheduleKeys;  // base, warmup_epochs

// Rate of step `step` (the first step is 0). During warm-up it rises linearly:
// base * (step + 1) / warm-up steps (Goyal et al. 2017, section 2.2).
double LearningRate(const Json& spec, ScheduleLength length, int64_t step);

}  // namespace lumen::train
