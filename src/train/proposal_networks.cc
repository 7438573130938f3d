// SPDX-License-Identifier: Apache-2.0
#include "proposal_networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lumen::train {
namespace {

using data::Survey;

// Below it masks save little and cost accuracy.
constexpr int64_t kWorthMasks = 200000;
// The stem for small images; larger ones are halved twice before the blocks.
constexpr int64_t kSmallImage = 64;
constexpr int64_t kSmallestImage = 8;  // it is halved twice
constexpr int64_t kSmallestLargeImage = 65;

int64_t Side(const Survey& survey) {
  const Shape& shape = survey.info.shape;
  return shape.depth > 1 ? 0 : std::min(shape.height, shape.width);
}

bool IsImage(const Survey& survey) {
  const Shape& shape = survey.info.shape;
  return survey.kind == SampleKind::kDense && Side(survey) >= kSmallestImage &&
         shape.channels <= 16;
}

bool IsSmallImage(const Survey& survey) {
  const Shape& shape = survey.info.shape;
  return IsImage(survey) && std::max(shape.height, shape.width) <= kSmallImage;
}

bool IsLargeImage(const Survey& survey) {
  return IsImage(survey) && Side(survey) >= kSmallestLargeImage;
}

bool IsSparse(const Survey& survey) {
  return survey.kind == SampleKind::kSparse;
}

bool IsAny(const Survey&) { return true; }

// He et al. 2015 with Nesterov's momentum; the rate follows the batch (Goyal et
// al. 2017).
void UseSgd(const Setting& setting, const char* decay, Network* network) {
  network->optimizer = fmt::format(
      R"({{"type": "sgd", "momentum": 0.9, "nesterov": true, "weight_decay": {}}})",
      decay);
  network->rate =
      std::clamp(0.1 * static_cast<double>(setting.batch) / 256.0, 0.02, 0.4);
  network->least_epochs = 20;
}

// Mirrored photographs are photographs; mirrored letters and digits, which come
// in grey, are not.
std::string AugmentOf(const Survey& survey) {
  const std::string crop = fmt::format(R"({{"type": "pad_crop", "pad": {}}})",
                                       std::max<int64_t>(1, Side(survey) / 8));
  return survey.info.shape.channels == 3 ? crop + R"(, {"type": "flip"})"
                                         : crop;
}

std::string NormOf(const Setting& setting) {
  return setting.small_batch() ? R"(, "norm": "group")" : "";
}

std::string NormText(const Setting& setting) {
  return setting.small_batch() ? " (group_norm, as a shard has few samples)"
                               : "";
}

struct ResnetSize {
  int depth;
  int width;
};

Network SmallImages(const Setting& setting, int size) {
  constexpr ResnetSize kSizes[] = {{20, 32}, {20, 16}, {8, 16}, {8, 8}};
  const ResnetSize& chosen = kSizes[size];
  Network network{
      .title = "a residual network for small images" + NormText(setting),
      .model = fmt::format(R"("preset": {{"type": "resnet", "depth": {}, )"
                           R"("width": {}, "stem": "small"{}}})",
                           chosen.depth, chosen.width, NormOf(setting)),
      .augment = AugmentOf(*setting.survey)};
  UseSgd(setting, "5e-4", &network);
  return network;
}

Network LargeImages(const Setting& setting, int size) {
  constexpr ResnetSize kSizes[] = {
      {50, 64}, {34, 64}, {18, 64}, {18, 32}, {18, 16}};
  const ResnetSize& chosen = kSizes[size];
  Network network{
      .title = "a residual network" + NormText(setting),
      .model = fmt::format(
          R"("preset": {{"type": "resnet", "depth": {}, "width": {}{}}})",
          chosen.depth, chosen.width, NormOf(setting)),
      .augment = AugmentOf(*setting.survey)};
  UseSgd(setting, "1e-4", &network);
  return network;
}

constexpr int kUnits[] = {1024, 512, 256, 128, 64, 32};

// The hidden layer of sparse rows is a table with a row per feature; only what
// a sample holds is read, so it needs no mask.
Network SparseRows(const Setting& setting, int size) {
  const int64_t units = kUnits[size];
  const int64_t outputs = setting.survey->info.classes;
  return {.title =
              "a layer that reads only what a row has, and an output per class",
          .model = fmt::format(R"("layers": [
      {{"name": "fc1", "type": "sparse_linear", "units": {}}},
      {{"type": "relu"}},
      {{"type": "dropout", "rate": 0.3}},
      {{"name": "fc2", "type": "linear", "units": {}}}
    ])",
                               units, outputs),
          .is_sparse = units * outputs >= kWorthMasks,
          .augment = "",
          .optimizer = R"({"type": "adam"})",
          .rate = 0.002};
}

Network Perceptron(const Setting& setting, int size) {
  const int64_t units = kUnits[size];
  const int64_t inputs = setting.survey->info.shape.elements();
  return {
      .title = "two hidden layers",
      .model = fmt::format(R"("preset": {{"type": "mlp", "units": [{}, {}], )"
                           R"("dropout": 0.1}})",
                           units, units),
      .is_sparse = units * (inputs + units) >= kWorthMasks / 4,
      .augment = "",
      .optimizer = R"({"type": "adamw", "weight_decay": 0.01})",
      .rate = 0.002};
}

int ByTenThousand(int64_t samples) {
  return samples >= 10000 ? 0 : samples >= 2000 ? 1 : 2;
}
int ByHundredThousand(int64_t samples) {
  return samples >= 100000 ? 0 : samples >= 20000 ? 1 : samples >= 2000 ? 2 : 3;
}

constexpr NetworkFamily kFamilies[] = {
    {IsSparse, std::size(kUnits), ByTenThousand, SparseRows},
    {IsSmallImage, 4, ByTenThousand, SmallImages},
    {IsLargeImage, 5, ByHundredThousand, LargeImages},
    {IsAny, std::size(kUnits), ByTenThousand, Perceptron},
};

}  // namespace

std::span<const NetworkFamily> NetworkFamilies() { return kFamilies; }

}  // namespace lumen::train
