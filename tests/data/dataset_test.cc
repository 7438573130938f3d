// SPDX-License-Identifier: Apache-2.0
// The reader table, the keys all readers share, and the synthetic reader.
#include "lumen/data/dataset.h"

#include <cmath>
#include <set>

#include "lumen/core/error.h"
#include "lumen/data/loader.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

std::string Synthetic(const std::string& more = "",
                      const std::string& shape = "[3, 9, 10]") {
  return "{\"type\": \"synthetic\", \"shape\": " + shape +
         ", \"samples\": {\"train\": 1000, \"test\": 200}, \"classes\": 7" +
         more + "}";
}

std::unique_ptr<Dataset> Train(const std::string& text) {
  return OpenDataset(DataSpec(text), Split::kTrain);
}

TEST(Dataset, TheTableNamesEveryReaderOnce) {
  std::set<std::string_view> types;
  for (const DatasetReader& reader : DatasetReaders()) {
    EXPECT_TRUE(types.insert(reader.type).second) << reader.type;
    EXPECT_FALSE(reader.help.empty());
    EXPECT_NE(reader.open, nullptr);
    EXPECT_NE(reader.info, nullptr);
    std::set<std::string_view> keys;
    for (const Key& key : kCommonDataKeys) keys.insert(key.name);
    for (const Key& key : reader.keys) {
      EXPECT_TRUE(keys.insert(key.name).second) << key.name;
      EXPECT_FALSE(key.help.empty()) << key.name;
    }
  }
  EXPECT_EQ(types, (std::set<std::string_view>{
                       "cifar", "csv", "hdf5", "idx", "image_folder", "npy",
                       "svmlight", "synthetic", "xmc"}));
  EXPECT_EQ(DatasetVariants().size(), DatasetReaders().size());
}

TEST(Dataset, UnknownTypesAndKeysAreSpecErrors) {
  EXPECT_THROW(DataSpec("{\"type\": \"idy\"}"), SpecError);
  EXPECT_THROW(DataSpec(Synthetic(", \"seperability\": 2")), SpecError);
  EXPECT_THROW(DataSpec(Synthetic(", \"augment\": 1")), SpecError);
  EXPECT_THROW(DataSpec(Synthetic(", \"order\": \"random\"")), SpecError);
}

TEST(Dataset, PathsAreNotMathematicalAndClassesAre) {
  const auto text = [](const std::string& root, int classes) {
    const Json spec = DataSpec("{\"type\": \"idx\", \"root\": \"" + root +
                               "\", \"train\": {\"x\": \"" + root +
                               "x\", \"y\": \"y\"}, "
                               "\"classes\": " +
                               std::to_string(classes) + "}");
    const Key keys[] = {{.name = "data",
                         .kind = KeyKind::kVariant,
                         .help = "The data set.",
                         .variants = DatasetVariants,
                         .common = kCommonDataKeys}};
    Json whole = Json::Object();
    whole.Set("data", spec);
    return MathematicalText(whole, keys);
  };
  EXPECT_EQ(text("/a", 10), text("/b", 10));
  EXPECT_NE(text("/a", 10), text("/a", 11));
}

TEST(Transform, OneValueStandsForAllChannels) {
  const Shape shape{.channels = 3, .height = 2, .width = 2};
  const Transform all = NewTransform(
      DataSpec(Synthetic(", \"normalize\": {\"mean\": [0.5], \"std\": [2]}")),
      shape);
  EXPECT_EQ(all.mean, (std::vector<float>{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(all.deviation, (std::vector<float>{2, 2, 2}));
  const Transform each = NewTransform(
      DataSpec(Synthetic(
          ", \"normalize\": {\"mean\": [1, 2, 3], \"std\": [4, 5, 6]}")),
      shape);
  EXPECT_EQ(each.deviation, (std::vector<float>{4, 5, 6}));
  EXPECT_TRUE(NewTransform(DataSpec(Synthetic()), shape).mean.empty());
}

TEST(Transform, WrongNumbersOfValuesAndZeroDeviationsAreSpecErrors) {
  const Shape shape{.channels = 3};
  const auto transform = [&](const std::string& normalize) {
    return [normalize, shape] {
      NewTransform(DataSpec(Synthetic(", \"normalize\": " + normalize)), shape);
    };
  };
  ExpectError<SpecError>(
      transform("{\"mean\": [1, 2], \"std\": [1]}"),
      {"test.json:1", "data.normalize.mean", "found 2 values", "1 or 3"});
  ExpectError<SpecError>(transform("{\"mean\": [1], \"std\": []}"),
                         {"data.normalize.std", "found 0 values"});
  ExpectError<SpecError>(transform("{\"mean\": [1], \"std\": [0]}"),
                         {"data.normalize.std", "above 0"});
  ExpectError<SpecError>(transform("{\"mean\": [1], \"std\": [1e-60]}"),
                         {"data.normalize.std"});
  ExpectError<SpecError>(transform("{\"mean\": [1], \"std\": [-1]}"),
                         {"data.normalize.std"});
}

TEST(Transform, TheOrderIsAKey) {
  EXPECT_EQ(DataOrder(DataSpec(Synthetic())), Order::kShuffle);
  EXPECT_EQ(DataOrder(DataSpec(Synthetic(", \"order\": \"file\""))),
            Order::kFile);
}

TEST(Synthetic, ASampleDependsOnItsIndexAndTheKeysOnly) {
  const auto a = Train(Synthetic());
  const auto b = Train(Synthetic());
  EXPECT_EQ(a->size(), 1000);
  EXPECT_EQ(a->shape(), (Shape{.channels = 3, .height = 9, .width = 10}));
  EXPECT_EQ(a->memory_bytes(), 0);
  EXPECT_EQ(a->fingerprint(), b->fingerprint());
  std::vector<float> x(270);
  std::vector<float> y(270);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a->Read(i, x, {}), b->Read(i, y, {}));
    EXPECT_EQ(x, y);
  }
  EXPECT_NE(Train(Synthetic(", \"seed\": 2"))->fingerprint(), a->fingerprint());
  EXPECT_NE(Train(Synthetic(", \"separability\": 3"))->fingerprint(),
            a->fingerprint());
  Train(Synthetic(", \"seed\": 2"))->Read(0, y, {});
  a->Read(0, x, {});
  EXPECT_NE(x, y);
  a->Read(1, y, {});
  EXPECT_NE(x, y);
}

// Samples are part of the mathematics of every run on synthetic data. The
// values come from a second implementation, in Python.
TEST(Synthetic, ValuesStayAsDefined) {
  const auto data = Train(Synthetic("", "[10]"));
  std::vector<float> x(10);
  EXPECT_EQ(data->Read(5, x, {}), 4);
  EXPECT_EQ(x, (std::vector<float>{-0x1.38c8aep+1, 0x1.55fdf2p+1, 0x1.b480f0p+0,
                                   -0x1.a682e4p-2, -0x1.0c7e9ap-1,
                                   0x1.648664p+1, -0x1.1a1b7cp-1, 0x1.7e1ebcp+1,
                                   0x1.1af5ccp+1, 0x1.aed820p-4}));
}

TEST(Synthetic, SplitsDiffer) {
  const Json spec = DataSpec(Synthetic());
  const auto train = OpenDataset(spec, Split::kTrain);
  const auto test = OpenDataset(spec, Split::kTest);
  EXPECT_EQ(test->size(), 200);
  EXPECT_EQ(OpenDataset(spec, Split::kValid), nullptr);
  EXPECT_NE(train->fingerprint(), test->fingerprint());
  std::vector<float> x(270);
  std::vector<float> y(270);
  train->Read(0, x, {});
  test->Read(0, y, {});
  EXPECT_NE(x, y);
}

// Fraction of test samples whose nearest training class mean is their own.
double NearestMeanAccuracy(const std::string& text) {
  const Json spec = DataSpec(text);
  const auto train = OpenDataset(spec, Split::kTrain);
  const auto test = OpenDataset(spec, Split::kTest);
  const int64_t elements = train->shape().elements();
  std::vector<std::vector<double>> mean(train->classes(),
                                        std::vector<double>(elements));
  std::vector<double> count(train->classes());
  std::vector<float> x(elements);
  for (int64_t i = 0; i < train->size(); ++i) {
    const int32_t label = train->Read(i, x, {});
    ++count[label];
    for (int64_t e = 0; e < elements; ++e) mean[label][e] += x[e];
  }
  int64_t right = 0;
  for (int64_t i = 0; i < test->size(); ++i) {
    const int32_t label = test->Read(i, x, {});
    double best = INFINITY;
    int32_t nearest = -1;
    for (int32_t c = 0; c < train->classes(); ++c) {
      double distance = 0;
      for (int64_t e = 0; e < elements; ++e) {
        const double d = mean[c][e] / count[c] - x[e];
        distance += d * d;
      }
      if (distance < best) {
        best = distance;
        nearest = c;
      }
    }
    right += nearest == label;
  }
  return static_cast<double>(right) / static_cast<double>(test->size());
}

TEST(Synthetic, SeparabilityDecidesHowLearnableItIs) {
  for (const std::string shape : {"[100]", "[3, 9, 10]", "[2, 10, 3, 4]"}) {
    EXPECT_GT(NearestMeanAccuracy(Synthetic("", shape)), 0.9) << shape;
    EXPECT_LT(NearestMeanAccuracy(Synthetic(", \"separability\": 0", shape)),
              0.3)
        << shape;
  }
}

TEST(Synthetic, NoiseHasMeanZeroAndVarianceOne) {
  const auto data = Train(Synthetic(", \"separability\": 0"));
  std::vector<float> x(270);
  double sum = 0;
  double squares = 0;
  std::set<int32_t> labels;
  for (int64_t i = 0; i < 1000; ++i) {
    labels.insert(data->Read(i, x, {}));
    for (const float value : x) {
      sum += value;
      squares += value * value;
    }
  }
  EXPECT_NEAR(sum / 270000, 0, 0.01);
  EXPECT_NEAR(squares / 270000, 1, 0.01);
  EXPECT_EQ(labels.size(), 7u);
}

TEST(Synthetic, MissingKeysAreNamed) {
  const auto open = [](const std::string& more) {
    const Json spec =
        DataSpec("{\"type\": \"synthetic\", \"classes\": 2" + more + "}");
    return [spec] { OpenDataset(spec, Split::kTrain); };
  };
  ExpectError<SpecError>(open(", \"samples\": {\"train\": 5}"),
                         {"data.shape", "not given"});
  ExpectError<SpecError>(open(", \"shape\": [4]"),
                         {"data.samples", "not given"});
  ExpectError<SpecError>(open(", \"shape\": [4], \"samples\": {\"train\": 0}"),
                         {"data.samples.train"});
  const DatasetInfo info = GetDatasetInfo(DataSpec(Synthetic()));
  EXPECT_EQ(info.train_samples, 1000);
  EXPECT_EQ(info.test_samples, 200);
  EXPECT_EQ(info.valid_samples, 0);
  EXPECT_EQ(info.classes, 7);
  EXPECT_EQ(info.memory_bytes, 0);
}

}  // namespace
}  // namespace lumen::data
