// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/isa.h"

#include "lumen/core/error.h"

namespace lumen::sparse {
namespace {

constexpr Isa kAll[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};

bool CanRun(Isa isa) {
#if defined(__x86_64__)
  // These ask CPUID and whether the system saves the registers.
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return CanRun(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  }
  return false;
#else
  return isa == Isa::kScalar;
#endif
}

}  // namespace

Isa DetectIsa() {
  Isa best = Isa::kScalar;
  for (Isa isa : AvailableIsas()) best = isa;
  return best;
}

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "";
}

Isa ParseIsa(std::string_view name) {
  if (name == "auto") return DetectIsa();
  for (Isa isa : kAll) {
    if (IsaName(isa) != name) continue;
    if (CanRun(isa)) return isa;
    throw SpecError("--isa=" + std::string(name) +
                    ": this CPU cannot run it; the best here is " +
                    std::string(IsaName(DetectIsa())));
  }
  throw SpecError("--isa: unknown \"" + std::string(name) +
                  "\"; known: auto, scalar, avx2, avx512");
}

std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas;
  for (Isa isa : kAll) {
    if (CanRun(isa)) isas.push_back(isa);
  }
  return isas;
}

}  // namespace lumen::sparse
