// SPDX-License-Identifier: Apache-2.0
// The energy that the processors of this host used, as Linux counts it (RAPL,
// Documentation/power/powercap/powercap.rst).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lumen::train {

// Packages and their memory, whoever used them: other programs on the host
// count too. The counters of the kernel start again at zero every half hour or
// so; Joules has to be called more often than that.
class EnergyMeter {
 public:
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");
  // Since the meter was made; NaN when the host has no counters that this
  // program may read (since Linux 5.10 only root may, by default).
  double Joules();

 private:
  struct Counter {
    std::string path;
    int64_t range = 0;  // where it starts again
    int64_t last = 0;
  };
  std::vector<Counter> counters_;
  double microjoules_ = 0;
};

}  // namespace lumen::train
