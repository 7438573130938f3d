// SPDX-License-Identifier: Apache-2.0
// A list of layers inside the list of layers. Blocks are dissolved by the
// graph; there is no layer of this type.
#include <glog/logging.h>

#include "layers.h"

namespace lumen::nn {
namespace {

const Key kKeys[] = {
    {.name = "repeat",
     .kind = KeyKind::kInteger,
     .fallback = "null",
     .help =
         "how many times in a row, each with its own weights, named NAME.0, "
         "NAME.1, ...; default: once, without a number",
     .minimum = 1,
     .maximum = 100000},
    {.name = "layers",
     .kind = KeyKind::kVariants,
     .help = "the layers; in their \"from\", \"input\" is the input of the "
             "block",
     .variants = LayerVariants,
     .common = kCommonLayerKeys},
};

}  // namespace

const LayerRow kBlockRow = {
    "block", kKeys, "layers that belong together, repeated or not",
    [](const Json&, const std::string&,
       std::span<const Shape>) -> std::unique_ptr<Layer> {
      LOG(FATAL) << "blocks are dissolved by the graph";
      return nullptr;
    }};

}  // namespace lumen::nn
