// SPDX-License-Identifier: Apache-2.0
#include "src/train/energy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace lumen::train {
namespace {

namespace fs = std::filesystem;

class Energy : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "powercap";
    fs::remove_all(folder_);
  }
  void Zone(const std::string& zone, const std::string& name, int64_t value) {
    fs::create_directories(folder_ + "/" + zone);
    std::ofstream(folder_ + "/" + zone + "/name") << name << "\n";
    std::ofstream(folder_ + "/" + zone + "/max_energy_range_uj") << 9'000'000;
    std::ofstream(folder_ + "/" + zone + "/energy_uj") << value << "\n";
  }
  std::string folder_;
};

TEST_F(Energy, PackagesAndMemoryAreAddedWithoutTheirParts) {
  Zone("intel-rapl:0", "package-0", 1'000'000);
  Zone("intel-rapl:0:0", "core", 1'000'000);
  Zone("intel-rapl:0:1", "dram", 500'000);
  EnergyMeter meter(folder_);
  EXPECT_EQ(meter.Joules(), 0);
  Zone("intel-rapl:0", "package-0", 3'000'000);
  Zone("intel-rapl:0:0", "core", 2'000'000);
  Zone("intel-rapl:0:1", "dram", 1'000'000);
  EXPECT_EQ(meter.Joules(), 2.5);
}

TEST_F(Energy, ACounterThatStartsAgainIsFollowed) {
  Zone("intel-rapl:0", "package-0", 8'000'000);
  EnergyMeter meter(folder_);
  Zone("intel-rapl:0", "package-0", 1'000'000);
  EXPECT_EQ(meter.Joules(), 2);
  Zone("intel-rapl:0", "package-0", 1'500'000);
  EXPECT_EQ(meter.Joules(), 2.5);
}

TEST_F(Energy, WithoutCountersItIsUnknown) {
  EXPECT_TRUE(std::isnan(EnergyMeter(folder_).Joules()));
  Zone("intel-rapl:0", "package-0", 1);
  EnergyMeter meter(folder_);
  fs::remove(folder_ + "/intel-rapl:0/energy_uj");
  EXPECT_TRUE(std::isnan(meter.Joules()));
}

}  // namespace
}  // namespace lumen::train
