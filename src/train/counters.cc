// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

#include <limits>

namespace lumen::train {
namespace {

// JSON has no NaN: what is not finite is written as null.
double Number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN()
                        : json.number();
}

}  // namespace

Json Counters::ToJson() const {
  Json sums = Json::Array();
  for (double metric : interval.metrics) sums.Append(metric);
  Json json = Json::Object();
  json.Set("step", step);
  json.Set("seconds", seconds);
  json.Set("samples", samples);
  json.Set("wire_bytes", wire_bytes);
  json.Set("wire_bytes_dense", wire_bytes_dense);
  json.Set("flops_executed", flops_executed);
  json.Set("flops_dense", flops_dense);
  json.Set("bad_steps", bad_steps);
  json.Set("bad_steps_in_row", bad_steps_in_row);
  json.Set("exchange_wait_s", exchange_wait_s);
  json.Set("data_wait_s", data_wait_s);
  json.Set("interval_samples", interval.samples);
  json.Set("interval_loss", interval.loss);
  json.Set("interval_metrics", std::move(sums));
  json.Set("train_loss", train_loss);
  json.Set("joules", joules);
  json.Set("best", best);
  json.Set("to_best", to_best);
  json.Set("test", test);
  return json;
}

Counters Counters::FromJson(const Json& json) {
  Counters counters;
  counters.step = json.at("step").integer();
  counters.seconds = Number(json.at("seconds"));
  counters.samples = json.at("samples").integer();
  counters.wire_bytes = json.at("wire_bytes").integer();
  counters.wire_bytes_dense = json.at("wire_bytes_dense").integer();
  counters.flops_executed = json.at("flops_executed").integer();
  counters.flops_dense = json.at("flops_dense").integer();
  counters.bad_steps = json.at("bad_steps").integer();
  counters.bad_steps_in_row = json.at("bad_steps_in_row").integer();
  counters.exchange_wait_s = Number(json.at("exchange_wait_s"));
  counters.data_wait_s = Number(json.at("data_wait_s"));
  counters.interval.samples = json.at("interval_samples").integer();
  counters.interval.loss = Number(json.at("interval_loss"));
  for (const Json& metric : json.at("interval_metrics").items()) {
    counters.interval.metrics.push_back(Number(metric));
  }
  counters.train_loss = Number(json.at("train_loss"));
  // Checkpoints of older versions lack these two.
  const Json* joules = json.Find("joules");
  counters.joules = Number(joules == nullptr ? Json() : *joules);
  if (const Json* to_best = json.Find("to_best")) counters.to_best = *to_best;
  counters.best = json.at("best");
  counters.test = json.at("test");
  return counters;
}

}  // namespace lumen::train
