// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/step_bench.h"

#include <algorithm>

#include "journal.h"
#include "run.h"
#include "start.h"

namespace lumen::train {

struct StepBench::Impl {
  Impl(const Spec& spec, comm::Communicator* communicator,
       const sparse::Compute& compute)
      : journal("", communicator, nullptr) {
    Start start = NewStart(spec, options, communicator, compute, &journal);
    plan = start.plan;
    hosted = static_cast<double>(start.hosted_shards.size());
    run = std::make_unique<train::Run>(spec, options, std::move(start),
                                       communicator, compute, &journal);
    nodes.forward.resize(plan.layers.size());
    nodes.backward.resize(plan.layers.size());
    run->Steps(1, nullptr);
  }

  RunOptions options = {.resume = "never"};
  Journal journal;
  Plan plan;
  double hosted = 0;
  std::unique_ptr<train::Run> run;
  nn::Model::NodeSeconds nodes;  // of one shard
  StepTimes times;
};

StepBench::StepBench(const Spec& spec, comm::Communicator* communicator,
                     const sparse::Compute& compute)
    : impl_(std::make_unique<Impl>(spec, communicator, compute)) {}
StepBench::~StepBench() = default;

const Plan& StepBench::plan() const { return impl_->plan; }
const StepTimes& StepBench::times() const { return impl_->times; }

void StepBench::Run(int64_t count) {
  StepTimes& times = impl_->times;
  for (double seconds : impl_->run->Steps(count, &impl_->nodes)) {
    if (times.step_seconds == 0 || seconds < times.step_seconds) {
      times.step_seconds = seconds;
    }
  }
  const auto of_all_shards = [&](const std::vector<double>& of_one) {
    std::vector<double> all = of_one;
    for (double& seconds : all) seconds *= impl_->hosted;
    return all;
  };
  times.forward = of_all_shards(impl_->nodes.forward);
  times.backward = of_all_shards(impl_->nodes.backward);
}

}  // namespace lumen::train
