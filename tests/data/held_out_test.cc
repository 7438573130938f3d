// SPDX-License-Identifier: Apache-2.0
// data.valid_fraction and data.class_weights.
#include <map>
#include <set>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

// 200 rows: x is the row, the class is 1 in every tenth, three rows share a g.
class HeldOutTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string text = "x,g,y\n";
    for (int i = 0; i < 200; ++i) {
      text += std::to_string(i) + "," + std::to_string(i / 3) + "," +
              (i % 10 == 0 ? "1" : "0") + "\n";
    }
    Store(folder_.File("a.csv"), text);
  }
  Json Spec(const std::string& keys) const {
    return DataSpec("{\"type\": \"csv\", \"root\": \"" + folder_.path() +
                    "\", \"train\": \"a.csv\", \"target\": \"y\", "
                    "\"classes\": 2" +
                    (keys.empty() ? "" : ", " + keys) + "}");
  }
  TestFolder folder_;
};

// The first input of each sample.
std::set<int> Rows(const Dataset& data) {
  std::set<int> rows;
  std::vector<float> x(data.shape().elements());
  for (int64_t i = 0; i < data.size(); ++i) {
    data.Read(i, x, {});
    rows.insert(static_cast<int>(x[0]));
  }
  return rows;
}

TEST_F(HeldOutTest, SplitsAreDisjointAndComplete) {
  const Json spec = Spec("\"valid_fraction\": 0.25");
  const Datasets data = OpenDatasets(spec);
  EXPECT_EQ(data.valid->size(), 50);
  EXPECT_EQ(data.train->size(), 150);
  EXPECT_EQ(data.test, nullptr);
  std::set<int> rows = Rows(*data.train);
  for (const int row : Rows(*data.valid)) {
    EXPECT_TRUE(rows.insert(row).second) << row;
  }
  EXPECT_EQ(rows.size(), 200u);
  EXPECT_NE(data.train->fingerprint(), data.valid->fingerprint());
  // One split alone is the same, and plan agrees.
  for (const Split split : {Split::kTrain, Split::kValid}) {
    EXPECT_EQ(
        OpenDataset(spec, split)->fingerprint(),
        (split == Split::kTrain ? data.train : data.valid)->fingerprint());
  }
  const DatasetInfo info = GetDatasetInfo(spec);
  EXPECT_EQ(info.train_samples, 150);
  EXPECT_EQ(info.valid_samples, 50);
  EXPECT_EQ(info.memory_bytes,
            data.train->memory_bytes() + data.valid->memory_bytes());
}

TEST_F(HeldOutTest, TheSeedOfTheSplitSelects) {
  const auto rows = [&](const std::string& keys) {
    return Rows(*OpenDatasets(Spec("\"valid_fraction\": 0.25" + keys)).valid);
  };
  EXPECT_EQ(rows(""), rows(", \"split_seed\": 1"));
  EXPECT_NE(rows(""), rows(", \"split_seed\": 2"));
}

TEST_F(HeldOutTest, StratifiedTakesTheSameShareOfEachClass) {
  const Json spec = Spec("\"valid_fraction\": 0.25, \"stratified\": true");
  const Datasets data = OpenDatasets(spec);
  std::map<int32_t, int> counts;
  for (int64_t i = 0; i < data.valid->size(); ++i) {
    ++counts[data.valid->Label(i)];
  }
  EXPECT_EQ(counts[0], 45);
  EXPECT_EQ(counts[1], 5);
  EXPECT_EQ(GetDatasetInfo(spec).valid_samples, 50);
}

TEST_F(HeldOutTest, GroupsAreNeverDivided) {
  const Json spec = Spec("\"valid_fraction\": 0.25, \"group\": \"g\"");
  const Datasets data = OpenDatasets(spec);
  EXPECT_EQ(data.train->shape(), (Shape{.channels = 1}));
  EXPECT_GE(data.valid->size(), 50);
  EXPECT_LE(data.valid->size(), 52);
  std::set<int> groups;
  for (const int row : Rows(*data.valid)) groups.insert(row / 3);
  for (const int row : Rows(*data.train))
    EXPECT_FALSE(groups.contains(row / 3));
  const DatasetInfo info = GetDatasetInfo(spec);
  EXPECT_EQ(info.valid_samples, data.valid->size());
  EXPECT_EQ(info.memory_bytes,
            data.train->memory_bytes() + data.valid->memory_bytes());
}

TEST_F(HeldOutTest, EveryTypeHasIt) {
  const Datasets data = OpenDatasets(DataSpec(
      "{\"type\": \"synthetic\", \"shape\": [3], \"classes\": 2, \"samples\": "
      "{\"train\": 100, \"test\": 10}, \"valid_fraction\": 0.1, "
      "\"stratified\": true}"));
  EXPECT_NEAR(static_cast<double>(data.valid->size()), 10, 1);
  EXPECT_EQ(data.train->size() + data.valid->size(), 100);
  EXPECT_EQ(data.test->size(), 10);
}

TEST_F(HeldOutTest, WrongKeysAreErrors) {
  const auto bad = [&](const std::string& keys,
                       std::initializer_list<std::string> fragments) {
    ExpectError<SpecError>([&] { OpenDatasets(Spec(keys)); }, fragments);
  };
  bad("\"valid_fraction\": 0.25, \"valid\": \"a.csv\"",
      {"test.json:1: data.valid_fraction", "one of the two"});
  bad("\"valid_fraction\": 0.001", {"takes 0 of 200 samples"});
  bad("\"valid_fraction\": 0.25, \"stratified\": true, \"group\": \"g\"",
      {"data.stratified", "data.group"});
  bad("\"valid_fraction\": 0.25, \"group\": \"z\"", {"data.group", "\"z\""});
}

TEST_F(HeldOutTest, ClassWeightsBalance) {
  const auto weights = [&](const std::string& keys) {
    const Json spec = Spec(keys);
    return ClassWeights(spec, *OpenDataset(spec, Split::kTrain));
  };
  EXPECT_TRUE(weights("").empty());
  EXPECT_EQ(weights("\"class_weights\": \"balanced\""),
            (std::vector<float>{static_cast<float>(200 / (2 * 180.0)), 5}));
  EXPECT_EQ(weights("\"class_weights\": {\"values\": [1, 2.5]}"),
            (std::vector<float>{1, 2.5f}));
  ExpectError<SpecError>(
      [&] { weights("\"class_weights\": {\"values\": [1]}"); },
      {"test.json:1: data.class_weights", "1 values", "expected 2"});
}

}  // namespace
}  // namespace lumen::data
