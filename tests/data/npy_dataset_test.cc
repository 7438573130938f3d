// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

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
  Json Spec(const std::string& x = "x.npy",
            const std::string& y = "y.npy") const {
    return DataSpec("{\"type\": \"npy\", \"root\": \"" + folder_.path() +
                    "\", \"train\": {\"x\": \"" + x + "\", \"y\": \"" + y +
                    "\"}, \"classes\": 3}");
  }
  std::unique_ptr<Dataset> Open(const std::string& x = "x.npy",
                                const std::string& y = "y.npy") const {
    return OpenDataset(Spec(x, y), Split::kTrain);
  }
  TestFolder folder_;
};

TEST_F(NpyDatasetTest, FloatsAreTakenAsTheyAre) {
  const auto data = Open();
  EXPECT_EQ(data->shape(), (Shape{.channels = 2}));
  EXPECT_EQ(data->memory_bytes(), 6 * 4 + 3 * 4);
  std::vector<float> x(2);
  EXPECT_EQ(data->Read(0, x), 0);
  EXPECT_EQ(x, (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(data->Read(1, x), 2);
  EXPECT_EQ(x, (std::vector<float>{2, 3}));
}

TEST_F(NpyDatasetTest, BytesAreScaledToOne) {
  WriteNpy(folder_.File("x.npy"),
           NewArray<uint8_t>('u', {3, 1, 1, 2}, {0, 255, 51, 1, 2, 3}));
  const auto data = Open();
  EXPECT_EQ(data->shape(), (Shape{.height = 1, .width = 2}));
  EXPECT_EQ(data->memory_bytes(), 6 + 3 * 4);
  std::vector<float> x(2);
  data->Read(0, x);
  EXPECT_EQ(x, (std::vector<float>{0, 1}));
  data->Read(1, x);
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
  ExpectError<IoError>([&] { Open("x.npy", "d.npy"); },
                       {folder_.File("d.npy"), "float64", "integers"});
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

TEST_F(NpyDatasetTest, InfoAgreesWithTheDataSet) {
  const DatasetInfo info = GetDatasetInfo(Spec());
  EXPECT_EQ(info.shape, Open()->shape());
  EXPECT_EQ(info.train_samples, 3);
  EXPECT_EQ(info.memory_bytes, Open()->memory_bytes());
}

}  // namespace
}  // namespace lumen::data
