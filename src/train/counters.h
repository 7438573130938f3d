// SPDX-License-Identifier: Apache-2.0
// What a run counts over all its starts; saved in every checkpoint.
#pragma once

#include <cstdint>

#include "lumen/core/json.h"
#include "lumen/nn/loss.h"

namespace lumen::train {

struct Counters {
  int64_t step = 0;     // the cursor: steps consumed, skipped ones included
  double seconds = 0;   // of training, over all starts
  int64_t samples = 0;  // valid samples seen
  int64_t wire_bytes = 0;
  int64_t wire_bytes_dense = 0;
  int64_t flops_executed = 0;
  int64_t flops_dense = 0;
  int64_t bad_steps = 0;  // skipped for a non-finite gradient
  int64_t bad_steps_in_row = 0;
  double exchange_wait_s = 0;
  double data_wait_s = 0;
  nn::LossSums interval;  // since the last line of metrics.jsonl
  double train_loss = 0;  // of that line
  double joules = 0;      // of all hosts; NaN: not measured
  Json best;              // null, or {step, split, metric, value}
  Json to_best;           // null, or what it took: see Run::Cost
  Json test;              // newest test evaluation

  Json ToJson() const;
  static Counters FromJson(const Json& json);
};

}  // namespace lumen::train
