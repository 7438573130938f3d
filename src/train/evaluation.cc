// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "evaluator.h"
#include "lumen/core/error.h"
#include "lumen/train/checkpoint.h"
#include "lumen/train/trainer.h"
#include "model_build.h"
#include "model_state.h"
#include "vote.h"

namespace lumen::train {
namespace {

data::Split ParseSplit(const std::string& name) {
  for (data::Split split :
       {data::Split::kTrain, data::Split::kValid, data::Split::kTest}) {
    if (data::SplitName(split) == name) return split;
  }
  throw SpecError("--split: unknown \"" + name +
                  "\"; known: train, valid, test");
}

}  // namespace

void RequireTargets(const Spec& spec, const data::Dataset& dataset) {
  const Json& loss = spec.model().at("loss");
  if (dataset.has_label_sets() && !nn::TakesSets(loss)) {
    throw SpecError(loss.where() + ": model.loss: " + loss.at("type").text() +
                    " needs one label per sample; the data has any number; use "
                    "sigmoid_bce");
  }
  if (dataset.targets() == 0 || nn::TakesValues(loss)) return;
  throw SpecError(loss.where() + ": model.loss: " + loss.at("type").text() +
                  " needs class labels; the data has " +
                  std::to_string(dataset.targets()) +
                  " targets per sample; use sigmoid_bce or mse");
}

nn::LossSums EvaluateSplit(const Spec& spec, const data::Dataset& dataset,
                           const std::vector<int>& hosted_shards,
                           const nn::Loss& loss, nn::Model* model,
                           comm::Communicator* communicator,
                           const sparse::Compute& compute) {
  const data::SampleOrder order(dataset.size(), spec.global_batch(),
                                spec.shards(), spec.seed(), data::Order::kFile,
                                data::Tail::kKeep);
  data::Loader loader(
      &dataset, order, data::NewTransform(spec.data(), dataset.shape()),
      model->layout(), hosted_shards, 0, order.steps_per_epoch());
  std::vector<nn::LossSums> sums(hosted_shards.size());
  while (const data::Batch* batch = loader.Next()) {
    const nn::Model::Pass pass{.kind = nn::PassKind::kEvaluation,
                               .epoch = static_cast<uint32_t>(batch->epoch),
                               .samples = batch->samples,
                               .labels = batch->labels,
                               .rows = batch->rows};
    const Panel output = model->Forward(batch->x, pass);
    const auto shard =
        std::find(hosted_shards.begin(), hosted_shards.end(), batch->shard);
    sums[static_cast<size_t>(shard - hosted_shards.begin())].Add(
        loss.Compute(compute, output,
                     {.labels = batch->labels,
                      .values = batch->targets,
                      .sets = batch->label_sets},
                     nn::Loss::kSumsOnly, 1));
  }
  return SumOverShards(communicator, sums,
                       static_cast<int64_t>(loss.metric_names().size()));
}

Json MetricsJson(const nn::LossSums& sums, const nn::Loss& loss) {
  // A split without a valid sample has no mean: null, never NaN.
  const auto mean = [&](double sum) {
    return sums.samples > 0 ? Json(sum / static_cast<double>(sums.samples))
                            : Json();
  };
  Json json = Json::Object();
  json.Set("samples", sums.samples);
  json.Set("loss", mean(sums.loss));
  const auto names = loss.metric_names();
  for (size_t m = 0; m < names.size(); ++m) {
    json.Set(names[m],
             m < sums.metrics.size() ? mean(sums.metrics[m]) : Json());
  }
  for (const nn::Metric& metric : loss.CountMetrics(sums)) {
    json.Set(metric.name, metric.value ? Json(*metric.value) : Json());
  }
  return json;
}

Json RunEvaluation(const EvaluationOptions& options,
                   comm::Communicator* communicator,
                   const sparse::Compute& compute) {
  const data::Split split = ParseSplit(options.split);
  const std::string checkpoint = FindCheckpoint(options.checkpoint);
  const data::H5Reader file(checkpoint + "/model.h5");
  const CheckpointHead head = ReadHead(file);
  const Spec spec = ParseSpec(head.spec_text, checkpoint + "/model.h5:/spec",
                              options.overrides);
  const auto dataset = data::OpenDataset(spec.data(), split);
  if (dataset == nullptr) {
    throw SpecError("--split=" + options.split + ": the data of " + checkpoint +
                    " names no such split; choose another with --split");
  }
  const int ranks = std::min(communicator->ranks(), spec.shards());
  const std::vector<int> shards =
      communicator->rank() < ranks
          ? comm::HostedShards(spec.shards(), ranks, communicator->rank())
          : std::vector<int>();
  nn::Model model =
      ModelFromCheckpoint(spec, file, dataset->shape(), dataset->classes(),
                          compute, {.passes = nn::PassKind::kEvaluation});
  // The hash of summary.json, also when the average is evaluated.
  const std::string parameter_hash = ParameterHash(model);
  const bool averaged = HasAverage(file);
  if (averaged) {
    ReadAverage(file, model.parameters().values());
    model.parameters().Refresh(compute.parallel);
  }
  RequireTargets(spec, *dataset);
  const auto loss = nn::NewLoss(spec.model().at("loss"), dataset->classes());
  const nn::LossSums sums = EvaluateSplit(spec, *dataset, shards, *loss, &model,
                                          communicator, compute);
  Json json = Json::Object();
  json.Set("checkpoint", checkpoint);
  json.Set("step", head.counters.step);
  json.Set("split", options.split);
  const Json metrics = MetricsJson(sums, *loss);
  for (const auto& [name, value] : metrics.members()) json.Set(name, value);
  json.Set("weights", std::string(averaged ? "ema" : "last"));
  json.Set("parameter_hash", parameter_hash);
  return json;
}

}  // namespace lumen::train
