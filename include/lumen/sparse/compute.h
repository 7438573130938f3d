// SPDX-License-Identifier: Apache-2.0
// What a layer needs to compute: the kernels of an ISA and the threads.
#pragma once

#include "lumen/core/parallel.h"
#include "lumen/sparse/kernels.h"

namespace lumen::sparse {

struct Compute {
  const KernelTable* kernels = nullptr;
  Parallel parallel;

  const KernelTable* operator->() const { return kernels; }
};

}  // namespace lumen::sparse
