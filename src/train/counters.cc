// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

namespace lumen::train {

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
  json.Set("best", best);
  json.Set("test", test);
  return json;
}

Counters Counters::FromJson(const Json& json) {
  Counters counters;
  counters.step = json.at("step").integer();
  counters.seconds = json.at("seconds").number();
  counters.samples = json.at("samples").integer();
  counters.wire_bytes = json.at("wire_bytes").integer();
  counters.wire_bytes_dense = json.at("wire_bytes_dense").integer();
  counters.flops_executed = json.at("flops_executed").integer();
  counters.flops_dense = json.at("flops_dense").integer();
  counters.bad_steps = json.at("bad_steps").integer();
  counters.bad_steps_in_row = json.at("bad_steps_in_row").integer();
  counters.exchange_wait_s = json.at("exchange_wait_s").number();
  counters.data_wait_s = json.at("data_wait_s").number();
  counters.interval.samples = json.at("interval_samples").integer();
  counters.interval.loss = json.at("interval_loss").number();
  for (const Json& metric : json.at("interval_metrics").items()) {
    counters.interval.metrics.push_back(metric.number());
  }
  counters.train_loss = json.at("train_loss").number();
  counters.best = json.at("best");
  counters.test = json.at("test");
  return counters;
}

}  // namespace lumen::train
