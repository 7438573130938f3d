// SPDX-License-Identifier: Apache-2.0
// The three ways a model comes to life: from the seed, from a file of weights,
// from a checkpoint.
#pragma once

#include "lumen/core/panel.h"
#include "lumen/data/h5_file.h"
#include "lumen/nn/model.h"
#include "lumen/sparse/compute.h"
#include "lumen/train/spec.h"

namespace lumen::train {

// Masks and values from the seed, or from the files of model.init.
nn::Model ModelFromSpec(const Spec& spec, const Shape& input, int64_t classes,
                        const sparse::Compute& compute,
                        const nn::ActivationUse& use);
// Masks and values from a verified model.h5.
nn::Model ModelFromCheckpoint(const Spec& spec, const data::H5Reader& file,
                              const Shape& input, int64_t classes,
                              const sparse::Compute& compute,
                              const nn::ActivationUse& use);
// Its structure alone, with the stored nonzeros; needs no data.
nn::Graph GraphFromCheckpoint(const Spec& spec, const data::H5Reader& file);

}  // namespace lumen::train
