// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <set>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "lumen/data/npz.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

template <class T>
NpyArray NewArray(char kind, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
  NpyArray array;
  array.kind = kind;
  array.width = sizeof(T);
  array.shape = std::move(shape);
  array.bytes.assign(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
  return array;
}

class NpyDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteNpy(folder_.File("x.npy"),
             NewArray<float>('f', {3, 2}, {0.5f, -1, 2, 3, 4, 5}));
    WriteNpy(folder_.File("y.npy"), NewArray<int64_t>('i', {3}, {0, 2, 1}));
  }
  Json Spec(const std::string& x = "x.npy", const std::string& y = "y.npy",
            int classes = 3) const {
    return DataSpec("{\"type\": \"npy\", \"root\": \"" + folder_.path() +
                    "\", \"train\": {\"x\": \"" + x + "\", \"y\": \"" + y +
                    "\"}, \"classes\": " + std::to_string(classes) + "}");
  }
  std::unique_ptr<Dataset> Open(const std::string& x = "x.npy",
                                const std::string& y = "y.npy",
                                int classes = 3) const {
    return OpenDataset(Spec(x, y, classes), Split::kTrain);
  }
  TestFolder folder_;
};

TEST_F(NpyDatasetTest, FloatsAreTakenAsTheyAre) {
  const auto data = Open();
  EXPECT_EQ(data->shape(), (Shape{.channels = 2}));
  EXPECT_EQ(data->memory_bytes(), 6 * 4 + 3 * 4);
  std::vector<float> x(2);
  EXPECT_EQ(data->Read(0, x, {}), 0);
  EXPECT_EQ(x, (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(data->Read(1, x, {}), 2);
  EXPECT_EQ(x, (std::vector<float>{2, 3}));
}

TEST_F(NpyDatasetTest, BytesAreScaledToOne) {
  WriteNpy(folder_.File("x.npy"),
           NewArray<uint8_t>('u', {3, 1, 1, 2}, {0, 255, 51, 1, 2, 3}));
  const auto data = Open();
  EXPECT_EQ(data->shape(), (Shape{.height = 1, .width = 2}));
  EXPECT_EQ(data->memory_bytes(), 6 + 3 * 4);
  std::vector<float> x(2);
  data->Read(0, x, {});
  EXPECT_EQ(x, (std::vector<float>{0, 1}));
  data->Read(1, x, {});
  EXPECT_EQ(x, (std::vector<float>{0.2f, 1 / 255.0f}));
}

TEST_F(NpyDatasetTest, ArraysOfAnArchiveAreNamed) {
  WriteNpz(folder_.File("d.npz"),
           {{"x", ReadNpy(folder_.File("x.npy"))},
            {"y", NewArray<uint8_t>('u', {3}, {0, 2, 1})}});
  EXPECT_EQ(Open("d.npz:x", "d.npz:y")->fingerprint(), Open()->fingerprint());
  EXPECT_EQ(GetDatasetInfo(Spec("d.npz:x", "d.npz:y")).train_samples, 3);
  ExpectError<IoError>([&] { Open("d.npz:z", "d.npz:y"); },
                       {"no array \"z\"", "x, y"});
  ExpectError<IoError>([&] { Open("e.npz:z", "d.npz:y"); },
                       {"data.train.x", folder_.File("e.npz"), "No such file"});
}

TEST_F(NpyDatasetTest, EveryLegalShapeIsRead) {
  const auto shape = [&](std::vector<int64_t> sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    WriteNpy(folder_.File("x.npy"),
             NewArray('f', std::move(sizes), std::vector<float>(count)));
    return Open()->shape();
  };
  EXPECT_EQ(shape({3}), Shape{});
  EXPECT_EQ(shape({3, 7}), (Shape{.channels = 7}));
  EXPECT_EQ(shape({3, 2, 4, 5}),
            (Shape{.channels = 2, .height = 4, .width = 5}));
  EXPECT_EQ(shape({3, 2, 6, 4, 5}),
            (Shape{.channels = 2, .depth = 6, .height = 4, .width = 5}));
  EXPECT_THROW(shape({3, 4, 5}), IoError);
  EXPECT_THROW(shape({3, 1, 1, 1, 1, 1}), IoError);
  EXPECT_THROW(shape({}), IoError);
  EXPECT_THROW(shape({3, 0}), IoError);
  EXPECT_THROW(shape({0, 2}), IoError);
}

TEST_F(NpyDatasetTest, ValuesThatAreNotFiniteNameFileAndSample) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    WriteNpy(folder_.File("x.npy"),
             NewArray<float>('f', {3, 2}, {0, 1, 2, 3, 4, value}));
    ExpectError<IoError>([&] { Open(); }, {folder_.File("x.npy"), "sample 2",
                                           "element 1", "expected finite"});
  }
}

TEST_F(NpyDatasetTest, WrongTypesAndLabelsAreErrors) {
  WriteNpy(folder_.File("d.npy"), NewArray<double>('f', {3}, {1, 2, 3}));
  ExpectError<IoError>([&] { Open("d.npy"); },
                       {folder_.File("d.npy"), "float64", "float32 or uint8"});
  WriteNpy(folder_.File("y.npy"), NewArray<int64_t>('i', {3}, {0, 3, 1}));
  ExpectError<IoError>([&] { Open(); }, {folder_.File("y.npy"), "sample 1",
                                         "label 3", "0 to 2"});
  WriteNpy(folder_.File("y.npy"), NewArray<int8_t>('i', {3}, {0, 1, -1}));
  ExpectError<IoError>([&] { Open(); }, {"sample 2", "label -1"});
  WriteNpy(folder_.File("y.npy"), NewArray<int8_t>('i', {2}, {0, 1}));
  ExpectError<IoError>([&] { Open(); }, {"3 samples", "expected 2"});
  WriteNpy(folder_.File("y.npy"),
           NewArray<uint64_t>('u', {3}, {0, uint64_t{1} << 63, 1}));
  ExpectError<IoError>([&] { Open(); }, {folder_.File("y.npy"), "element 1"});
}

std::vector<float> TargetsOf(const Dataset& data, int64_t index) {
  std::vector<float> x(2);
  std::vector<float> targets(data.targets());
  EXPECT_EQ(data.Read(index, x, targets), 0);
  EXPECT_EQ(x, index == 0   ? (std::vector<float>{0.5f, -1})
               : index == 1 ? (std::vector<float>{2, 3})
                            : (std::vector<float>{4, 5}));
  return targets;
}

TEST_F(NpyDatasetTest, IntegersInOneDimensionAreLabels) {
  EXPECT_EQ(Open()->targets(), 0);
  EXPECT_EQ(GetDatasetInfo(Spec()).targets, 0);
}

TEST_F(NpyDatasetTest, FloatsInOneDimensionAreOneTargetEach) {
  const std::vector<double> y = {0.1, -2, 1e-3};
  WriteNpy(folder_.File("y.npy"), NewArray<double>('f', {3}, y));
  const auto data = Open("x.npy", "y.npy", 1);
  EXPECT_EQ(data->targets(), 1);
  EXPECT_EQ(data->classes(), 1);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(TargetsOf(*data, i),
              std::vector<float>{static_cast<float>(y[i])});
  }
}

TEST_F(NpyDatasetTest, TwoDimensionsOfAnyTypeAreTargets) {
  const std::vector<std::vector<float>> rows = {
      {0, 1, 1}, {1, 0, 0}, {0, 1, 0}};
  const NpyArray arrays[] = {
      NewArray<float>('f', {3, 3}, {0, 1, 1, 1, 0, 0, 0, 1, 0}),
      NewArray<uint8_t>('u', {3, 3}, {0, 1, 1, 1, 0, 0, 0, 1, 0}),
      NewArray<uint8_t>('b', {3, 3}, {0, 1, 1, 1, 0, 0, 0, 1, 0}),
      NewArray<int64_t>('i', {3, 3}, {0, 1, 1, 1, 0, 0, 0, 1, 0})};
  std::set<uint64_t> fingerprints;
  for (const NpyArray& y : arrays) {
    WriteNpy(folder_.File("y.npy"), y);
    const auto data = Open();
    EXPECT_EQ(data->targets(), 3);
    EXPECT_EQ(data->memory_bytes(), 6 * 4 + 9 * 4);
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(TargetsOf(*data, i), rows[i]);
    fingerprints.insert(data->fingerprint());
    const DatasetInfo info = GetDatasetInfo(Spec());
    EXPECT_EQ(info.targets, 3);
    EXPECT_EQ(info.classes, 3);
    EXPECT_EQ(info.memory_bytes, data->memory_bytes());
  }
  EXPECT_EQ(fingerprints.size(), 1u);  // of values, not of types
}

TEST_F(NpyDatasetTest, TheFingerprintCoversTargets) {
  const auto fingerprint = [&](const NpyArray& y, int classes) {
    WriteNpy(folder_.File("y.npy"), y);
    return Open("x.npy", "y.npy", classes)->fingerprint();
  };
  const std::set<uint64_t> all = {
      fingerprint(NewArray<int32_t>('i', {3}, {0, 0, 0}), 1),
      fingerprint(NewArray<float>('f', {3}, {0, 0, 0}), 1),
      fingerprint(NewArray<float>('f', {3}, {0, 0, 0.5f}), 1),
      fingerprint(NewArray<float>('f', {3, 2}, {0, 0, 0, 0, 0, 0}), 2)};
  EXPECT_EQ(all.size(), 4u);
}

TEST_F(NpyDatasetTest, WrongTargetsAreErrors) {
  const auto open = [&](const NpyArray& y, int classes) {
    return [&, y, classes] {
      WriteNpy(folder_.File("y.npy"), y);
      Open("x.npy", "y.npy", classes);
    };
  };
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    ExpectError<IoError>(
        open(NewArray<float>('f', {3, 2}, {0, 1, 2, value, 4, 5}), 2),
        {folder_.File("y.npy"), "sample 1", "target 1", "expected finite"});
  }
  ExpectError<IoError>(open(NewArray<double>('f', {3}, {0, 1e300, 1}), 1),
                       {folder_.File("y.npy"), "element 1", "float32"});
  ExpectError<IoError>(
      open(NewArray<float>('f', {2, 3}, {0, 1, 2, 3, 4, 5}), 3),
      {"3 samples", "expected 2", "row of targets"});
  ExpectError<IoError>(open(NewArray<float>('f', {3, 0}, {}), 1),
                       {folder_.File("y.npy"), "[3, 0]", "[n, targets]"});
  ExpectError<IoError>(open(NewArray<float>('f', {3, 1, 1}, {0, 1, 2}), 1),
                       {"float32 of shape [3, 1, 1]"});
  ExpectError<IoError>(open(NewArray<uint8_t>('b', {3}, {0, 1, 1}), 2),
                       {"bool of shape [3]", "labels (integers"});
  // Labels that were stored as floats.
  ExpectError<SpecError>(
      open(NewArray<float>('f', {3}, {0, 1, 2}), 3),
      {"test.json:1: data.classes: 3", "expected 1", folder_.File("y.npy"),
       "float32 of shape [3]", "labels are integers"});
  EXPECT_THROW(GetDatasetInfo(Spec()), SpecError);
}

TEST_F(NpyDatasetTest, SplitsHaveAsManyTargets) {
  WriteNpy(folder_.File("t.npy"), NewArray<float>('f', {3}, {0, 1, 2}));
  WriteNpy(folder_.File("y.npy"), NewArray<int8_t>('i', {3}, {0, 0, 0}));
  const Json spec =
      DataSpec("{\"type\": \"npy\", \"root\": \"" + folder_.path() +
               "\", \"train\": {\"x\": \"x.npy\", \"y\": \"t.npy\"}, "
               "\"test\": {\"x\": \"x.npy\", \"y\": \"y.npy\"}, "
               "\"classes\": 1}");
  ExpectError<IoError>([&] { GetDatasetInfo(spec); },
                       {folder_.File("y.npy"), "0 targets", "expected 1"});
}

TEST_F(NpyDatasetTest, InfoAgreesWithTheDataSet) {
  const DatasetInfo info = GetDatasetInfo(Spec());
  EXPECT_EQ(info.shape, Open()->shape());
  EXPECT_EQ(info.train_samples, 3);
  EXPECT_EQ(info.memory_bytes, Open()->memory_bytes());
}

}  // namespace
}  // namespace lumen::data
