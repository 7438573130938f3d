// SPDX-License-Identifier: Apache-2.0
// The keys of "model" in a spec.
#include "lumen/nn/loss.h"
#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

constexpr Key kSparsityKeys[] = {
    {.name = "method",
     .kind = KeyKind::kText,
     .fallback = "\"dense\"",
     .help =
         "dense: every weight exists; static: a random mask that stays; "
         "set: the smallest weights move to random places (Mocanu et al. "
         "2018); rigl: to where the gradient is largest (Evci et al. 2020); "
         "gmp: the smallest weights go until density is reached (Zhu and "
         "Gupta 2017)",
     .choices = "dense|static|set|rigl|gmp"},
    {.name = "density",
     .kind = KeyKind::kNumber,
     .fallback = "0.1",
     .help = "share of the weights that exist, over the layers not excluded",
     .minimum = 0,
     .maximum = 1},
    {.name = "distribution",
     .kind = KeyKind::kText,
     .fallback = "\"erk\"",
     .help = "the same density everywhere, or more for small layers "
             "(Erdos-Renyi-Kernel)",
     .choices = "uniform|erk"},
    {.name = "update_every",
     .kind = KeyKind::kInteger,
     .fallback = "100",
     .help = "set, rigl and gmp: steps between changes of the mask",
     .minimum = 1},
    {.name = "drop_fraction",
     .kind = KeyKind::kNumber,
     .fallback = "0.3",
     .help = "set and rigl: share of a layer's weights that move at first, "
             "then less and less, by half a cosine",
     .minimum = 0,
     .maximum = 1},
    {.name = "initial_density",
     .kind = KeyKind::kNumber,
     .fallback = "1",
     .help = "gmp: density at first",
     .minimum = 0,
     .maximum = 1},
    {.name = "start_at",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "gmp: share of the run after which weights begin to go",
     .minimum = 0,
     .maximum = 1},
    {.name = "stop_at",
     .kind = KeyKind::kNumber,
     .fallback = "0.75",
     .help = "share of the run after which masks stay",
     .minimum = 0,
     .maximum = 1},
    {.name = "exclude",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "layers that stay dense, by name; default: where dense kernels "
             "win: convolutions of the network's input, depthwise ones, and "
             "the last layer of a network with convolutions"},
};

constexpr Key kInitKeys[] = {
    {.name = "file",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "NPZ or safetensors file of initial values, one array per "
             "parameter name"},
    {.name = "mask",
     .kind = KeyKind::kText,
     .fallback = "\"spec\"",
     .help = "where masks come from: the sparsity above, the zeros of the "
             "file, or the zeros of mask_file",
     .choices = "spec|zeros|file"},
    {.name = "mask_file",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "NPZ or safetensors file of masks, one array per parameter name; "
             "layers it does not name stay dense"},
};

// A function: the rows refer to tables of other files.
std::vector<Key> NewModelKeys() {
  return {
      {.name = "preset",
       .kind = KeyKind::kVariant,
       .fallback = "null",
       .help = "a well-known network; this or layers",
       .variants = PresetVariants},
      {.name = "layers",
       .kind = KeyKind::kVariants,
       .fallback = "null",
       .help = "layers in order; this or preset",
       .variants = LayerVariants,
       .common = kCommonLayerKeys},
      {.name = "sparsity",
       .kind = KeyKind::kObject,
       .fallback = "{}",
       .help = "which weights exist",
       .keys = kSparsityKeys},
      {.name = "init",
       .kind = KeyKind::kObject,
       .fallback = "{}",
       .help = "initial values; default: from train.seed",
       .keys = kInitKeys},
      {.name = "strips",
       .kind = KeyKind::kInteger,
       .fallback = "1",
       .help = "strips that a large image is cut into, side by side in the "
               "lanes of one vector; for one sample per shard. The width of a "
               "strip must be a multiple of the strides of the network",
       .minimum = 1,
       .maximum = kVectorLanes},
      {.name = "loss",
       .kind = KeyKind::kVariant,
       .fallback = R"({"type": "softmax_cross_entropy"})",
       .help = "what training makes small",
       .variants = LossVariants},
  };
}

}  // namespace

std::span<const Key> ModelKeys() {
  static const std::vector<Key> keys = NewModelKeys();
  return keys;
}

}  // namespace lumen::nn
