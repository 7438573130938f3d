// SPDX-License-Identifier: Apache-2.0
// A validation split made of training samples: data.valid_fraction.
#pragma once

#include <memory>
#include <vector>

#include "lumen/data/dataset.h"

namespace lumen::data {

bool HasValidFraction(const Json& spec);

// The samples of `train` that become the validation split, ascending: those
// with the smallest draws of (data.split_seed, group), rounded to whole groups;
// the same share of each class when data.stratified. Throws SpecError when one
// of the two splits would be empty.
std::vector<int64_t> HeldOutSamples(const Json& spec, const Dataset& train);
// How many those are, without samples to look at. REQUIRES: neither stratified
// nor grouped.
int64_t HeldOutCount(const Json& spec, int64_t samples);
bool CountNeedsSamples(const Json& spec);

// One of the two parts of `train`, which they share.
std::unique_ptr<Dataset> NewPart(const Json& spec,
                                 std::shared_ptr<const Dataset> train,
                                 Split split);

}  // namespace lumen::data
