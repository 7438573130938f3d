// SPDX-License-Identifier: Apache-2.0
#include "energy.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace lumen::train {
namespace {

namespace fs = std::filesystem;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// -1 when it cannot be read.
int64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

// Cores are parts of a package; the memory is not.
bool IsCounted(const std::string& folder) {
  std::ifstream file(folder + "/name");
  std::string name;
  std::getline(file, name);
  return name.starts_with("package") || name == "dram";
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string zone = entry.path().string();
    if (!IsCounted(zone)) continue;
    counters_.push_back({.path = zone + "/energy_uj",
                         .range = ReadNumber(zone + "/max_energy_range_uj"),
                         .last = ReadNumber(zone + "/energy_uj")});
  }
  if (counters_.empty()) microjoules_ = kUnknown;
}

double EnergyMeter::Joules() {
  for (Counter& counter : counters_) {
    const int64_t now = ReadNumber(counter.path);
    if (now < 0 || counter.last < 0) microjoules_ = kUnknown;
    int64_t used = now - counter.last;
    if (used < 0) used += counter.range;
    microjoules_ += static_cast<double>(used);
    counter.last = now;
  }
  return microjoules_ * 1e-6;
}

}  // namespace lumen::train
