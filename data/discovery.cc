// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::data {
namespace {

Json Resolved(const Json& data) {
  const Key keys[] = {{.name = "data",
                       .kind = KeyKind::kVariant,
                       .variants = DatasetVariants,
                       .common = kCommonDataKeys}};
  Json spec = Json::Object();
  spec.Set("data", data);
  return Resolve(spec, keys).at("data");
}

// Sums of a channel.
struct Sums {
  double count = 0;
  double sum = 0;
  double squares = 0;
  void Add(double value) {
    ++count;
    sum += value;
    squares += value * value;
  }
  ChannelStatistics Statistics() const {
    if (count == 0) return {};
    const double mean = sum / count;
    return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean))};
  }
};

// Reads the samples of dense data.
void Look(const Dataset& data, int64_t stride, Survey* survey) {
  std::vector<float> x(static_cast<size_t>(data.shape().elements()));
  std::vector<float> targets(static_cast<size_t>(data.targets()));
  std::vector<Sums> channels(static_cast<size_t>(data.shape().channels));
  const size_t pixels = x.size() / channels.size();
  Sums of_targets;
  survey->targets_are_binary = true;
  for (int64_t i = 0; i < data.size(); i += stride) {
    ++survey->looked_at;
    int32_t label = 0;
    try {
      label = data.Read(i, x, targets);
    } catch (const IoError& error) {
      if (++survey->bad == 1) survey->first_bad = error.what();
      continue;
    }
    for (size_t k = 0; k < x.size(); ++k) channels[k / pixels].Add(x[k]);
    for (const float target : targets) {
      of_targets.Add(target);
      survey->targets_are_binary &= target == 0.0f || target == 1.0f;
    }
    if (targets.empty()) ++survey->per_class[static_cast<size_t>(label)];
  }
  for (const Sums& sums : channels) {
    survey->channels.push_back(sums.Statistics());
  }
  survey->targets = of_targets.Statistics();
}

void LookSparse(const Dataset& data, int64_t stride, Survey* survey) {
  for (int64_t i = 0; i < data.size(); i += stride) {
    ++survey->looked_at;
    if (!data.has_label_sets()) {
      ++survey->per_class[static_cast<size_t>(data.ReadSparse(i).label)];
    }
  }
}

}  // namespace

Discovery DiscoverDataset(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    throw IoError(path +
                  ": no such file or folder; expected the files of a data set");
  }
  std::vector<Discovery> found;
  std::vector<std::string> types;
  std::vector<std::string> known;
  for (const DatasetReader& reader : DatasetReaders()) {
    if (reader.discover == nullptr) continue;
    known.emplace_back(reader.type);
    std::optional<Discovery> discovery = reader.discover(path);
    if (!discovery) continue;
    types.emplace_back(reader.type);
    Json spec = Json::Object();
    spec.Set("type", std::string(reader.type));
    for (const auto& [key, value] : discovery->spec.members()) {
      spec.Set(key, value);
    }
    discovery->spec = std::move(spec);
    found.push_back(std::move(*discovery));
  }
  if (found.size() == 1) return std::move(found[0]);
  if (found.empty()) {
    throw IoError(path + ": found no data set; expected files of one of: " +
                  Join(known) + "; data/README.md describes them");
  }
  throw IoError(path + ": found data sets of several types: " + Join(types) +
                "; give the training file of one of them");
}

Survey SurveyDataset(const Json& data, int64_t most) {
  const Json resolved = Resolved(data);
  Survey survey;
  survey.kind = KindOfSamples(resolved);
  survey.info = GetDatasetInfo(resolved);
  const std::unique_ptr<Dataset> train = OpenDataset(resolved, Split::kTrain);
  const int64_t stride = std::max<int64_t>(1, train->size() / most);
  if (train->targets() == 0 && !train->has_label_sets()) {
    survey.per_class.resize(static_cast<size_t>(train->classes()));
  }
  if (survey.kind == SampleKind::kSparse) {
    LookSparse(*train, stride, &survey);
  } else {
    Look(*train, stride, &survey);
  }
  return survey;
}

}  // namespace lumen::data
