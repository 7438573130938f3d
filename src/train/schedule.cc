// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/schedule.h"

#include <glog/logging.h>

#include "lumen/core/math.h"

namespace lumen::train {
namespace {

constexpr double kPi = 3.14159265358979323846;

constexpr Key kCommonKeys[] = {
    {.name = "base",
     .kind = KeyKind::kNumber,
     .help = "rate after the warm-up",
     .minimum = 0},
    {.name = "warmup_epochs",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "epochs over which the rate rises linearly to base",
     .minimum = 0},
};

constexpr Key kStepKeys[] = {
    {.name = "milestones",
     .kind = KeyKind::kNumbers,
     .help = "epochs at which the rate is multiplied by gamma",
     .minimum = 0},
    {.name = "gamma",
     .kind = KeyKind::kNumber,
     .fallback = "0.1",
     .help = "factor at each milestone",
     .minimum = 0},
};

constexpr Key kCosineKeys[] = {
    {.name = "final",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "rate that the end approaches",
     .minimum = 0},
};

constexpr Key kPolyKeys[] = {
    {.name = "power",
     .kind = KeyKind::kNumber,
     .fallback = "1",
     .help = "exponent; 1 is linear decay",
     .minimum = 0},
    {.name = "final",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "rate that the end approaches",
     .minimum = 0},
};

double Base(const Json& spec) { return spec.at("base").number(); }

double Constant(const Json& spec, double, double) { return Base(spec); }

double Step(const Json& spec, double, double epoch) {
  double rate = Base(spec);
  for (const Json& milestone : spec.at("milestones").items()) {
    if (epoch >= milestone.number()) rate *= spec.at("gamma").number();
  }
  return rate;
}

// Loshchilov and Hutter 2017, equation 5, one cycle.
double Cosine(const Json& spec, double progress, double) {
  const double last = spec.at("final").number();
  return last + (Base(spec) - last) * 0.5 * (1.0 + Cos(kPi * progress));
}

double Poly(const Json& spec, double progress, double) {
  const double last = spec.at("final").number();
  return last +
         (Base(spec) - last) * Pow(1.0 - progress, spec.at("power").number());
}

constexpr ScheduleRow kSchedules[] = {
    {"constant", {}, "the same rate throughout", Constant},
    {"step", kStepKeys, "multiplied by gamma at milestones", Step},
    {"cosine", kCosineKeys, "half a cosine down to final", Cosine},
    {"poly", kPolyKeys, "(1 - progress)^power down to final", Poly},
};

}  // namespace

const std::span<const Key> kCommonScheduleKeys = kCommonKeys;

std::span<const ScheduleRow> Schedules() { return kSchedules; }

std::vector<Variant> ScheduleVariants() {
  std::vector<Variant> variants;
  for (const ScheduleRow& row : kSchedules) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

double LearningRate(const Json& spec, ScheduleLength length, int64_t step) {
  const double per_epoch = static_cast<double>(length.steps_per_epoch);
  const auto warmup =
      static_cast<int64_t>(spec.at("warmup_epochs").number() * per_epoch + 0.5);
  if (step < warmup) {
    return Base(spec) * static_cast<double>(step + 1) /
           static_cast<double>(warmup);
  }
  const int64_t rest = length.total_steps - warmup;
  const double progress =
      rest > 0 ? static_cast<double>(step - warmup) / static_cast<double>(rest)
               : 0.0;
  const double epoch = static_cast<double>(step) / per_epoch;
  const std::string& type = spec.at("type").text();
  for (const ScheduleRow& row : kSchedules) {
    if (row.type == type) return row.rate(spec, progress, epoch);
  }
  LOG(FATAL) << "schedule " << type << " passed the schema";
  return 0;
}

}  // namespace lumen::train
