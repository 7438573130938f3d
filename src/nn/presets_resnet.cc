// SPDX-License-Identifier: Apache-2.0
// Residual networks: He et al. 2015 with torchvision's layout (the stride of a
// bottleneck in its 3x3 window) and parameter names, and wide residual networks
// (Zagoruyko and Komodakis 2016) with theirs.
#include <algorithm>
#include <array>
#include <vector>

#include "lumen/core/error.h"
#include "presets.h"

namespace lumen::nn {
namespace {

constexpr Key kNormGroupKey = {
    .name = "norm_group",
    .kind = KeyKind::kInteger,
    .fallback = "null",
    .help = "samples per statistic of each batch_norm; default: its own",
    .minimum = 1};

constexpr Key kNormKey = {
    .name = "norm",
    .kind = KeyKind::kText,
    .fallback = "\"batch\"",
    .help =
        "batch_norm, or group_norm, which does not depend on the batch; "
        "the names of the layers stay",
    .choices = "batch|group"};

constexpr Key kZeroInitKey = {
    .name = "zero_init",
    .kind = KeyKind::kBool,
    .fallback = "false",
    .help =
        "residual blocks begin as the identity: weights of their last "
        "normalisation are 0 at first, which very deep networks need"};

constexpr Key kResnetKeys[] = {
    {.name = "depth",
     .kind = KeyKind::kInteger,
     .fallback = "null",
     .help = "layers with weights: 18, 34, 50, 101, 152, 200, 500 or, from 50 "
             "on, any 3n+2; with the small stem 6n+2, or 9n+2 of bottlenecks; "
             "this or blocks",
     .minimum = 1},
    {.name = "blocks",
     .kind = KeyKind::kIntegers,
     .fallback = "null",
     .help = "residual blocks per stage, for any other depth",
     .minimum = 1},
    {.name = "block",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "two 3x3 convolutions, or 1x1, 3x3, 1x1; default: bottleneck from "
             "depth 50 on with the imagenet stem",
     .choices = "basic|bottleneck"},
    {.name = "width",
     .kind = KeyKind::kInteger,
     .fallback = "null",
     .help = "channels of the first stage; default: 64, small stem 16",
     .minimum = 1},
    {.name = "stem",
     .kind = KeyKind::kText,
     .fallback = "\"imagenet\"",
     .help = "imagenet: 7x7 of stride 2, pooling, four stages; small: 3x3 for "
             "images of 28 to 64 pixels, three stages",
     .choices = "imagenet|small"},
    kNormKey,
    kNormGroupKey,
    kZeroInitKey,
};

constexpr Key kWrnKeys[] = {
    {.name = "depth",
     .kind = KeyKind::kInteger,
     .help = "layers with weights, 6n+4",
     .minimum = 10},
    {.name = "widen",
     .kind = KeyKind::kInteger,
     .fallback = "1",
     .help = "factor of the channels 16, 32, 64",
     .minimum = 1},
    {.name = "dropout",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "rate between the convolutions of a block",
     .minimum = 0,
     .maximum = 0.999},
    kNormKey,
    kNormGroupKey,
};

struct KnownDepth {
  int64_t depth;
  bool bottleneck;
  std::array<int64_t, 4> blocks;
};
// He et al. 2015, table 1; 200 of He et al. 2016, "Identity Mappings"; 500 in
// the same manner.
constexpr KnownDepth kDepths[] = {
    {18, false, {2, 2, 2, 2}},   {34, false, {3, 4, 6, 3}},
    {50, true, {3, 4, 6, 3}},    {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},  {200, true, {3, 24, 36, 3}},
    {500, true, {3, 40, 120, 3}}};

struct Structure {
  std::vector<int64_t> blocks;
  bool bottleneck = false;
};

Structure StructureOf(const Json& spec) {
  const Json& depth = spec.at("depth");
  const Json& blocks = spec.at("blocks");
  const Json& block = spec.at("block");
  const bool small = spec.at("stem").text() == "small";
  const std::string where = spec.where() + ": model.preset.depth: ";
  if (depth.is_null() == blocks.is_null()) {
    throw SpecError(spec.where() +
                    ": model.preset: needs either \"depth\" or \"blocks\", " +
                    (depth.is_null() ? "has none" : "has both"));
  }
  Structure structure;
  structure.bottleneck = !block.is_null() && block.text() == "bottleneck";
  if (!blocks.is_null()) {
    for (const Json& n : blocks.items()) {
      structure.blocks.push_back(n.integer());
    }
    return structure;
  }
  if (small) {
    const int64_t layers = structure.bottleneck ? 9 : 6;
    const int64_t n = (depth.integer() - 2) / layers;
    if (n < 1 || n * layers + 2 != depth.integer()) {
      throw SpecError(where + std::to_string(depth.integer()) + "; expected " +
                      std::to_string(layers) + "n + 2 with the small stem");
    }
    structure.blocks = {n, n, n};
    return structure;
  }
  std::string known;
  for (const KnownDepth& row : kDepths) {
    known += std::to_string(row.depth) + ", ";
    if (row.depth != depth.integer()) continue;
    structure.blocks.assign(row.blocks.begin(), row.blocks.end());
    if (block.is_null()) structure.bottleneck = row.bottleneck;
    return structure;
  }
  // Any other number of bottlenecks: three at either end, the rest one to three
  // on the stages between, as in 500.
  const int64_t all = (depth.integer() - 2) / 3;
  if (depth.integer() >= 50 && 3 * all + 2 == depth.integer()) {
    const int64_t second = (all - 6) / 4;
    structure.blocks = {3, second, all - 6 - second, 3};
    if (block.is_null()) structure.bottleneck = true;
    return structure;
  }
  throw SpecError(where + std::to_string(depth.integer()) + "; known: " +
                  known + "3n + 2 from 50 on; for another one give \"blocks\"");
}

// The layers of one network, whose batch normalisations share a setting.
class Builder : public LayerList {
 public:
  explicit Builder(const Json& spec)
      : by_group_(spec.at("norm").text() == "group"),
        group_(spec.at("norm_group")) {
    const Json* zero = spec.Find("zero_init");
    zero_init_ = zero != nullptr && zero->boolean();
  }

  // `channels`: what it normalises.
  void AddNorm(const std::string& name, int64_t channels) {
    Add(name, Norm(channels));
  }
  // The last one of a residual block.
  void AddLastNorm(const std::string& name, int64_t channels) {
    Json layer = Norm(channels);
    if (zero_init_) layer.Set("init", "zeros");
    Add(name, std::move(layer));
  }
  void AddHead(int64_t classes) {
    Add("avgpool", "global_pool");
    Add("flatten", "flatten");
    AddLinear("fc", classes);
  }

 private:
  Json Norm(int64_t channels) const {
    Json layer = OfType(by_group_ ? "group_norm" : "batch_norm");
    if (by_group_) {
      layer.Set("groups", Groups(channels));
    } else {
      layer.Set("group", group_);
    }
    return layer;
  }
  // At most 32 (Wu and He 2018) of at least 4 channels, all of one size.
  static int64_t Groups(int64_t channels) {
    int64_t groups = std::clamp<int64_t>(channels / 4, 1, 32);
    while (channels % groups != 0) --groups;
    return groups;
  }

  bool by_group_;
  bool zero_init_ = false;
  Json group_;
};

// Convolution, normalisation and, but for the last, ReLU.
void AddBranch(Builder* layers, const std::string& block,
               const std::string& input, int64_t channels, int64_t stride,
               bool bottleneck) {
  const std::vector<int64_t> windows =
      bottleneck ? std::vector<int64_t>{1, 3, 1} : std::vector<int64_t>{3, 3};
  std::string from = input;
  for (size_t i = 0; i < windows.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const bool last = i + 1 == windows.size();
    const bool strided = bottleneck ? i == 1 : i == 0;
    layers->AddConv(block + ".conv" + number, from,
                    bottleneck && last ? 4 * channels : channels, windows[i],
                    strided ? stride : 1);
    if (last) {
      layers->AddLastNorm(block + ".bn" + number,
                          bottleneck ? 4 * channels : channels);
    } else {
      layers->AddNorm(block + ".bn" + number, channels);
      layers->Add(block + ".relu" + number, "relu");
    }
    from = layers->last();
  }
}

Json Resnet(const Json& spec, const Shape&, int64_t classes) {
  const Structure structure = StructureOf(spec);
  const bool small = spec.at("stem").text() == "small";
  const Json& given = spec.at("width");
  int64_t channels = !given.is_null() ? given.integer() : small ? 16 : 64;
  const int64_t expansion = structure.bottleneck ? 4 : 1;
  Builder layers(spec);
  layers.AddConv("conv1", "input", channels, small ? 3 : 7, small ? 1 : 2);
  layers.AddNorm("bn1", channels);
  layers.Add("relu", "relu");
  if (!small) layers.AddMaxPool("maxpool", 3, 2, 1);
  int64_t inputs = channels;
  for (size_t stage = 0; stage < structure.blocks.size(); ++stage) {
    for (int64_t b = 0; b < structure.blocks[stage]; ++b) {
      const std::string block =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(b);
      const std::string input = layers.last();
      const int64_t stride = b == 0 && stage > 0 ? 2 : 1;
      AddBranch(&layers, block, input, channels, stride, structure.bottleneck);
      const std::string branch = layers.last();
      std::string shortcut = input;
      if (stride != 1 || inputs != channels * expansion) {
        layers.AddConv(block + ".downsample.0", input, channels * expansion, 1,
                       stride);
        layers.AddNorm(block + ".downsample.1", channels * expansion);
        shortcut = layers.last();
      }
      layers.AddSum(block + ".add", branch, shortcut);
      layers.Add(block + ".relu", "relu");
      inputs = channels * expansion;
    }
    channels *= 2;
  }
  layers.AddHead(classes);
  return layers.Take();
}

Json Wrn(const Json& spec, const Shape&, int64_t classes) {
  const int64_t depth = spec.at("depth").integer();
  const int64_t blocks = (depth - 4) / 6;
  if (6 * blocks + 4 != depth) {
    throw SpecError(spec.at("depth").where() + ": model.preset.depth: " +
                    std::to_string(depth) + "; expected 6n + 4");
  }
  Builder layers(spec);
  layers.AddConv("conv1", "input", 16, 3, 1);
  int64_t inputs = 16;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t channels = (16 << stage) * spec.at("widen").integer();
    for (int64_t b = 0; b < blocks; ++b) {
      const std::string block =
          "block" + std::to_string(stage + 1) + ".layer." + std::to_string(b);
      const std::string input = layers.last();
      const int64_t stride = b == 0 && stage > 0 ? 2 : 1;
      layers.AddNorm(block + ".bn1", inputs);
      layers.Add(block + ".relu1", "relu");
      const std::string active = layers.last();
      layers.AddConv(block + ".conv1", active, channels, 3, stride);
      layers.AddNorm(block + ".bn2", channels);
      layers.Add(block + ".relu2", "relu");
      if (spec.at("dropout").number() > 0) {
        layers.AddDropout(block + ".dropout", spec.at("dropout"));
      }
      layers.AddConv(block + ".conv2", layers.last(), channels, 3, 1);
      const std::string branch = layers.last();
      std::string shortcut = input;
      if (inputs != channels || stride != 1) {
        shortcut = block + ".convShortcut";
        layers.AddConv(shortcut, active, channels, 1, stride);
      }
      layers.AddSum(block + ".add", branch, shortcut);
      inputs = channels;
    }
  }
  layers.AddNorm("bn1", inputs);
  layers.Add("relu", "relu");
  layers.AddHead(classes);
  return layers.Take();
}

}  // namespace

const PresetRow kResnetRow = {
    "resnet", kResnetKeys, "residual network with torchvision's names", Resnet};
const PresetRow kWrnRow = {"wrn", kWrnKeys, "wide residual network", Wrn};

}  // namespace lumen::nn
