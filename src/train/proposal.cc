// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/proposal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "proposal_networks.h"

namespace lumen::train {
namespace {

using data::Survey;

// Of normalize: more channels share one mean and deviation.
constexpr size_t kMostChannels = 64;
// About as many steps as a first run needs.
constexpr int64_t kSteps = 4000;
constexpr int64_t kMostEpochs = 60;
// From so many steps on it pays that masks move (Evci et al. 2020).
constexpr int64_t kStepsForMovingMasks = 3000;
// Fewer bytes than this per step and rank are not worth compressing.
constexpr int64_t kSmallExchange = int64_t{1} << 20;

// "loss", and how the best checkpoint is told.
struct Goal {
  std::string loss;
  std::string metric;
  std::string mode;
};
Goal GoalOf(const Survey& survey) {
  if (survey.info.has_label_sets) {
    return {R"({"type": "sigmoid_bce"})", "p_at_1", "max"};
  }
  if (survey.info.targets == 0) {
    return {R"({"type": "softmax_cross_entropy"})", "accuracy", "max"};
  }
  if (survey.targets_are_binary) {
    return {R"({"type": "sigmoid_bce"})", "accuracy", "max"};
  }
  return {R"({"type": "mse"})", "loss", "min"};
}

int64_t PowerOfTwoUpTo(int64_t limit) {
  int64_t power = 1;
  while (2 * power <= limit) power *= 2;
  return power;
}

// A hundred or so steps per epoch; shards of at least 16 samples, a vector of
// lanes, where there are as many.
Setting SettingFor(const Survey& survey, int64_t batch_limit) {
  const int64_t samples = survey.info.train_samples;
  Setting setting{.survey = &survey};
  setting.batch =
      samples >= 1000000
          ? 1024
          : std::clamp<int64_t>(PowerOfTwoUpTo(samples / 50), 32, 256);
  setting.batch = std::min({setting.batch, batch_limit,
                            PowerOfTwoUpTo(std::max<int64_t>(1, samples))});
  setting.shards =
      std::clamp<int64_t>(setting.batch / 16, 1, samples >= 1000000 ? 16 : 4);
  return setting;
}

std::string Numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values)
    texts.push_back(fmt::format("{:.4g}", value));
  return "[" + Join(texts) + "]";
}

// A channel that is always the same becomes 0, not infinite.
double DeviationOf(const data::ChannelStatistics& channel) {
  const double least = 1e-6 * std::max(1e-6, std::abs(channel.mean));
  return channel.deviation > least ? channel.deviation : 1.0;
}

std::string Normalize(const Survey& survey) {
  std::vector<double> means;
  std::vector<double> deviations;
  double mean = 0;
  double square = 0;
  for (const data::ChannelStatistics& channel : survey.channels) {
    means.push_back(channel.mean);
    deviations.push_back(DeviationOf(channel));
    mean += channel.mean;
    square +=
        channel.deviation * channel.deviation + channel.mean * channel.mean;
  }
  const auto count = static_cast<double>(means.size());
  if (means.size() > kMostChannels) {
    mean /= count;
    means = {mean};
    deviations = {DeviationOf(
        {mean, std::sqrt(std::max(0.0, square / count - mean * mean))})};
  }
  return fmt::format(R"("normalize": {{"mean": {}, "std": {}}})",
                     Numbers(means), Numbers(deviations));
}

std::string ShapeText(const Shape& shape) {
  std::vector<std::string> sides = {std::to_string(shape.channels)};
  if (shape.depth > 1) sides.push_back(std::to_string(shape.depth));
  if (shape.elements() > shape.channels) {
    sides.push_back(std::to_string(shape.height));
    sides.push_back(std::to_string(shape.width));
  }
  return "[" + Join(sides) + "]";
}

std::string DataText(const Json& data, const Survey& survey,
                     const Network& network) {
  std::string text;
  for (const auto& [key, value] : data.members()) {
    text += fmt::format("    \"{}\": {},\n", key, value.Dump());
  }
  if (survey.kind == SampleKind::kDense) {
    text += "    // Of the training samples, per channel.\n    " +
            Normalize(survey) + ",\n";
    if (!network.augment.empty()) {
      text += "    \"augment\": [" + network.augment + "],\n";
    }
    if (survey.bad > 0) {
      text +=
          "    // Some samples cannot be read.\n"
          "    \"on_bad_sample\": \"skip\",\n";
    }
    text += "    \"shape\": " + ShapeText(survey.info.shape) + ",\n";
  }
  const data::DatasetInfo& info = survey.info;
  // What is held out comes from the training files, which the key counts.
  const bool held_out = data.Find("valid_fraction") != nullptr;
  std::string samples =
      fmt::format("\"train\": {}",
                  info.train_samples + (held_out ? info.valid_samples : 0));
  if (info.valid_samples > 0 && !held_out) {
    samples += fmt::format(", \"valid\": {}", info.valid_samples);
  }
  if (info.test_samples > 0) {
    samples += fmt::format(", \"test\": {}", info.test_samples);
  }
  return text +
         "    // Lets lumen plan work on a machine without the files.\n" +
         "    \"samples\": {" + samples + "}";
}

// The length of a run, and what follows from it.
struct Length {
  int64_t steps_per_epoch = 1;
  int64_t epochs = 1;
};
Length LengthOf(const Setting& setting, const Network& network) {
  Length length;
  length.steps_per_epoch =
      std::max<int64_t>(1, setting.survey->info.train_samples / setting.batch);
  length.epochs = std::clamp(kSteps / length.steps_per_epoch,
                             network.least_epochs, kMostEpochs);
  return length;
}

std::string SparsityText(const Network& network, const Length& length) {
  if (!network.is_sparse) {
    return "    // So few weights that all of them are kept.\n"
           "    \"sparsity\": {\"method\": \"dense\"},\n";
  }
  const bool moves =
      length.epochs * length.steps_per_epoch >= kStepsForMovingMasks;
  return fmt::format(
      "    // 90 % of the weights do not exist; {}.\n"
      "    \"sparsity\": {{\"method\": \"{}\", \"density\": 0.1, "
      "\"distribution\": \"erk\"}},\n",
      moves ? "the mask moves to where the gradient is largest"
            : "the run is short, so the mask stays",
      moves ? "rigl" : "static");
}

std::string ExchangeText(int64_t nnz) {
  if (4 * nnz < kSmallExchange) {
    return "  // So little to send that it is sent as it is.\n"
           "  \"exchange\": {\"type\": \"dense\"},\n";
  }
  return "  // Each shard sends the largest part of its gradient; the rest "
         "waits "
         "for later steps.\n"
         "  \"exchange\": {\n"
         "    \"type\": \"split\", \"verify_every\": 100,\n"
         "    \"compressor\": {\"type\": \"topk\", \"density\": 0.1}, "
         "\"codec\": {\"values\": \"int8\"}\n  },\n";
}

std::string SpecText(const Json& data, const Setting& setting,
                     const Network& network, const std::string& exchange,
                     const std::vector<std::string>& comments) {
  const Goal goal = GoalOf(*setting.survey);
  const Length length = LengthOf(setting, network);
  std::string text = "{\n";
  for (const std::string& comment : comments) text += "  // " + comment + "\n";
  text +=
      "  \"data\": {\n" + DataText(data, *setting.survey, network) + "\n  },\n";
  text += "  // The network: " + network.title + ".\n  \"model\": {\n    " +
          network.model + ",\n" + SparsityText(network, length) +
          "    \"loss\": " + goal.loss + "\n  },\n";
  text += fmt::format(
      "  \"train\": {{\n"
      "    \"seed\": 1,\n"
      "    \"shards\": {},  // at most as many ranks can share the run\n"
      "    \"global_batch\": {}, \"epochs\": {},  // {} per epoch\n"
      "    \"optimizer\": {},\n"
      "    \"lr\": {{\"type\": \"cosine\", \"base\": {:.3g}, "
      "\"warmup_epochs\": 1}},\n"
      "    \"eval_every\": \"1 epochs\", \"log_every\": {}\n  }},\n",
      setting.shards, setting.batch, length.epochs,
      CountOf(length.steps_per_epoch, "step"), network.optimizer, network.rate,
      std::clamp<int64_t>(length.steps_per_epoch / 5, 1, 20));
  text += exchange;
  text += fmt::format(
      "  \"checkpoint\": {{\n    \"every\": \"1 epochs\", \"keep\": 3,\n"
      "    // With a validation split, the checkpoint that counts as the "
      "best.\n"
      "    \"best\": {{\"metric\": \"{}\", \"mode\": \"{}\"}}\n  }}\n",
      goal.metric, goal.mode);
  return text + "}\n";
}

const NetworkFamily& FamilyOf(const Survey& survey) {
  const auto families = NetworkFamilies();
  return *std::find_if(families.begin(), families.end(),
                       [&](const auto& row) { return row.suits(survey); });
}

}  // namespace

Proposal ProposeSpec(const Json& data, const Survey& survey,
                     int64_t memory_bytes,
                     const std::vector<std::string>& comments,
                     const std::string& source) {
  const NetworkFamily& family = FamilyOf(survey);
  int64_t needed = 0;
  // A smaller batch costs less than a smaller network.
  for (int size = family.first_size(survey.info.train_samples);
       size < family.sizes; ++size) {
    for (int64_t limit = 1024; limit >= 16; limit /= 4) {
      const Setting setting = SettingFor(survey, limit);
      const Network network = family.build(setting, size);
      const auto plan_of = [&](const std::string& exchange) {
        Proposal proposal;
        proposal.network = network.title;
        proposal.text = SpecText(data, setting, network, exchange, comments);
        proposal.plan = NewPlan(ParseSpec(proposal.text, source), 1, 1);
        return proposal;
      };
      Proposal proposal = plan_of(ExchangeText(0));
      if (4 * proposal.plan.nnz >= kSmallExchange) {
        proposal = plan_of(ExchangeText(proposal.plan.nnz));
      }
      needed = proposal.plan.memory_bytes();
      if (needed <= memory_bytes) return proposal;
    }
  }
  throw SpecError(fmt::format(
      "{}: the smallest network needs {} on this machine, the data set {} of "
      "it; {} can be had; use a machine with more memory, or keep the samples "
      "in HDF5 or image files, which are read one by one",
      source, FormatBytes(needed), FormatBytes(survey.info.memory_bytes),
      FormatBytes(memory_bytes)));
}

}  // namespace lumen::train
