// SPDX-License-Identifier: Apache-2.0
// One table per instruction set; only kernels.cc chooses between them.
#pragma once

#include "lumen/sparse/kernels.h"

namespace lumen::sparse {

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace lumen::sparse
