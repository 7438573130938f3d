// SPDX-License-Identifier: Apache-2.0
// Instruction sets that kernels exist for. Chosen at run time; every one gives
// the same bits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lumen::sparse {

enum class Isa { kScalar = 0, kAvx2 = 1, kAvx512 = 2 };

// The best this CPU and operating system run.
Isa DetectIsa();
std::string_view IsaName(Isa isa);  // "scalar", "avx2", "avx512"
// "auto" is DetectIsa(). Throws SpecError on an unknown name, or on one that
// this CPU cannot run.
Isa ParseIsa(std::string_view name);
// All that this CPU can run, scalar first: tests iterate it.
std::vector<Isa> AvailableIsas();

}  // namespace lumen::sparse
