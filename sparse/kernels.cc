// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/kernels.h"

#include "sparse/kernels_isa.h"

namespace lumen::sparse {

const KernelTable& Kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return kAvx512Kernels;
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kScalar:
      break;
  }
  return kScalarKernels;
}

}  // namespace lumen::sparse
