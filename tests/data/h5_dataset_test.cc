// SPDX-License-Identifier: Apache-2.0
#include <hdf5.h>

#include <chrono>
#include <limits>

#include "lumen/core/error.h"
#include "lumen/data/h5_file.h"
#include "lumen/data/loader.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

// Writes an array of `type`, in chunks and deflated when `chunks` is given.
void Put(const std::string& path, const std::string& name, hid_t type,
         const std::vector<hsize_t>& shape, const void* values,
         const std::vector<hsize_t>& chunks = {}) {
  const hid_t file =
      std::filesystem::exists(path)
          ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
          : H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  if (!chunks.empty()) {
    H5Pset_chunk(list, static_cast<int>(chunks.size()), chunks.data());
    H5Pset_deflate(list, 6);
  }
  const hid_t space =
      H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  if (H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0) {
    H5Ldelete(file, name.c_str(), H5P_DEFAULT);
  }
  const hid_t array = H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT,
                                 list, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
  H5Dclose(array);
  H5Sclose(space);
  H5Pclose(list);
  H5Fclose(file);
}

class H5DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t i = 0; i < 6 * 24; ++i) {
      floats_.push_back(static_cast<float>(i) * 0.25f - 3);
      doubles_.push_back(0.1 * static_cast<double>(i));
      bytes_.push_back(static_cast<uint8_t>(i * 7));
    }
    Put(File(), "f", H5T_NATIVE_FLOAT, {6, 2, 3, 4}, floats_.data());
    Put(File(), "d", H5T_NATIVE_DOUBLE, {6, 24}, doubles_.data());
    Put(File(), "b", H5T_NATIVE_UINT8, {6, 1, 2, 3, 4}, bytes_.data(),
        {4, 1, 2, 2, 3});
    const int64_t labels[] = {0, 1, 2, 3, 4, 0};
    Put(File(), "y", H5T_NATIVE_INT64, {6}, labels);
    const float targets[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    Put(File(), "t", H5T_NATIVE_FLOAT, {6, 2}, targets);
    Put(File(), "t1", H5T_NATIVE_FLOAT, {6}, targets);
  }
  std::string File() const { return folder_.File("a.h5"); }
  Json Spec(const std::string& x, const std::string& y, int classes = 5,
            const std::string& more = "") const {
    return DataSpec(R"({"type": "hdf5", "root": ")" + folder_.path() +
                    R"(", "train": {"x": ")" + x + R"(", "y": ")" + y +
                    R"("}, "classes": )" + std::to_string(classes) + more +
                    "}");
  }
  std::unique_ptr<Dataset> Open(const std::string& x, const std::string& y,
                                int classes = 5) const {
    return OpenDataset(Spec(x, y, classes), Split::kTrain);
  }
  template <class T>
  static void ExpectValues(const Dataset& data, const std::vector<T>& expected,
                           float scale) {
    std::vector<float> x(data.shape().elements());
    for (const int64_t i : {3, 0, 5, 1, 2, 4}) {
      data.Read(i, x, {});
      for (size_t e = 0; e < x.size(); ++e) {
        EXPECT_EQ(x[e], static_cast<float>(expected[i * x.size() + e]) / scale);
      }
    }
  }
  TestFolder folder_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
  std::vector<uint8_t> bytes_;
};

TEST_F(H5DatasetTest, SamplesOfEveryTypeAreReadWhereTheyLie) {
  const auto floats = Open("a.h5:/f", "a.h5:/y");
  EXPECT_EQ(floats->shape(), (Shape{.channels = 2, .height = 3, .width = 4}));
  EXPECT_EQ(floats->size(), 6);
  EXPECT_EQ(floats->memory_bytes(), 6 * 4);
  ExpectValues(*floats, floats_, 1);
  std::vector<float> x(24);
  EXPECT_EQ(floats->Read(4, x, {}), 4);
  const auto doubles = Open("a.h5:/d", "a.h5:/y");
  EXPECT_EQ(doubles->shape(), Shape{.channels = 24});
  ExpectValues(*doubles, doubles_, 1);
  const auto bytes = Open("a.h5:/b", "a.h5:/y");
  EXPECT_EQ(bytes->shape(),
            (Shape{.channels = 1, .depth = 2, .height = 3, .width = 4}));
  ExpectValues(*bytes, bytes_, 255);
  // One sample lies in 1 x 1 x 1 x 2 x 2 chunks of 48 bytes.
  EXPECT_EQ(bytes->memory_bytes(), 6 * 4 + 4 * 48);
  EXPECT_EQ(GetDatasetInfo(Spec("a.h5:/b", "a.h5:/y")).memory_bytes,
            bytes->memory_bytes());
}

TEST_F(H5DatasetTest, TargetsAreFloatsOrRows) {
  const auto data = Open("a.h5:/f", "a.h5:/t", 2);
  EXPECT_EQ(data->targets(), 2);
  std::vector<float> x(24);
  std::vector<float> targets(2);
  EXPECT_EQ(data->Read(3, x, targets), 0);
  EXPECT_EQ(targets, (std::vector<float>{7, 8}));
  EXPECT_EQ(Open("a.h5:/f", "a.h5:/t1", 1)->targets(), 1);
  ExpectError<SpecError>([&] { Open("a.h5:/f", "a.h5:/t", 5); },
                         {"data.classes: 5; expected 2"});
}

TEST_F(H5DatasetTest, WrongArraysAreNamed) {
  const auto expect = [&](const std::string& x, const std::string& y,
                          std::initializer_list<std::string> texts) {
    ExpectError<IoError>([&] { Open(x, y); }, texts);
  };
  expect("a.h5:/nix", "a.h5:/y", {File(), "/nix", "found nothing"});
  expect("b.h5:/f", "a.h5:/y", {"data.train.x", folder_.File("b.h5")});
  expect("a.h5:/y", "a.h5:/y", {File() + ":/y", "found int64"});
  expect("a.h5:/f", "a.h5:/f", {File() + ":/f", "float32 of shape"});
  ExpectError<SpecError>([&] { Open("a.h5", "a.h5:/y"); },
                         {"names no array", "file.h5:/path"});
  const int32_t labels[] = {0, 1, 7, 0, 0, 0};
  Put(File(), "y", H5T_NATIVE_INT32, {6}, labels);
  expect("a.h5:/f", "a.h5:/y", {File() + ":/y", "sample 2", "label 7"});
  Put(File(), "y", H5T_NATIVE_INT32, {5}, labels);
  expect("a.h5:/f", "a.h5:/y", {"6 samples", "expected 5", ":/y"});
  Put(File(), "y", H5T_NATIVE_INT16, {3}, labels);
  expect("a.h5:/f", "a.h5:/y", {"/y", "found int16"});
  Store(folder_.File("b.h5"), "no HDF5");
  expect("b.h5:/f", "a.h5:/y",
         {folder_.File("b.h5"), "cannot be read as HDF5"});
}

TEST_F(H5DatasetTest, ABadSampleIsAnErrorOrSkipped) {
  floats_[24 * 2 + 5] = std::numeric_limits<float>::quiet_NaN();
  Put(File(), "f", H5T_NATIVE_FLOAT, {6, 2, 3, 4}, floats_.data());
  const auto data = Open("a.h5:/f", "a.h5:/y");
  std::vector<float> x(24);
  ExpectError<IoError>([&] { data->Read(2, x, {}); },
                       {File() + ":/f: sample 2: nan at element 5"});
  data->Read(3, x, {});
  const Json spec = Spec("a.h5:/f", "a.h5:/y", 5,
                         R"(, "order": "file", "on_bad_sample": "skip")");
  Loader loader(data.get(), SampleOrder(6, 6, 1, 1, Order::kFile, Tail::kKeep),
                NewTransform(spec, data->shape()), LaneLayout::For(6), {0}, 0,
                1);
  EXPECT_EQ(loader.Next()->labels, (std::vector<int32_t>{0, 1, -1, 3, 4, 0}));
}

TEST_F(H5DatasetTest, ADamagedChunkNamesItsSamples) {
  std::vector<uint8_t> noise(64 * 1000);
  uint32_t state = 1;
  for (uint8_t& value : noise) {
    value = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  }
  const std::vector<int64_t> labels(64);
  const std::string path = folder_.File("c.h5");
  Put(path, "y", H5T_NATIVE_INT64, {64}, labels.data());
  Put(path, "x", H5T_NATIVE_UINT8, {64, 1000}, noise.data(), {8, 1000});
  std::string bytes = Load(path);
  const size_t at = bytes.find(
      std::string(reinterpret_cast<const char*>(noise.data()) + 20 * 1000, 40));
  ASSERT_NE(at, std::string::npos);  // noise is stored, not shrunk
  bytes[at] ^= 1;
  Store(path, bytes);
  const auto data = Open("c.h5:/x", "c.h5:/y");
  std::vector<float> x(1000);
  int64_t bad = 0;
  for (int64_t i = 0; i < 64; ++i) {
    try {
      data->Read(i, x, {});
    } catch (const IoError& error) {
      ++bad;
      EXPECT_EQ(i / 8, 2);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("sample " + std::to_string(i)));
    }
  }
  EXPECT_EQ(bad, 8);
}

TEST_F(H5DatasetTest, TheFingerprintIsOfTheContent) {
  const uint64_t before = Open("a.h5:/f", "a.h5:/y")->fingerprint();
  EXPECT_EQ(Open("a.h5:/f", "a.h5:/y")->fingerprint(), before);
  Put(File(), "copy", H5T_NATIVE_FLOAT, {6, 2, 3, 4}, floats_.data(),
      {1, 2, 3, 4});
  EXPECT_EQ(Open("a.h5:/copy", "a.h5:/y")->fingerprint(), before);
  floats_[30] += 1;
  Put(File(), "copy", H5T_NATIVE_FLOAT, {6, 2, 3, 4}, floats_.data());
  EXPECT_NE(Open("a.h5:/copy", "a.h5:/y")->fingerprint(), before);
}

TEST_F(H5DatasetTest, ChunksAreInflatedOnceInFileOrder) {
  // 2 MB chunks, above HDF5's own cache of 1 MB: without KeepOpen each of the
  // 256 reads would inflate one. This prints the time; nothing depends on it.
  std::vector<uint8_t> values(int64_t{256} * 16384);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  }
  const std::vector<int64_t> labels(256);
  const std::string path = folder_.File("c.h5");
  Put(path, "y", H5T_NATIVE_INT64, {256}, labels.data());
  Put(path, "x", H5T_NATIVE_UINT8, {256, 16384}, values.data(), {128, 16384});
  const auto data = Open("c.h5:/x", "c.h5:/y");
  EXPECT_EQ(data->memory_bytes(), 128 * 16384 + 256 * 4);
  std::vector<float> x(16384);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < 256; ++i) {
    data->Read(i, x, {});
    EXPECT_EQ(x[i], static_cast<float>(values[i * 16384 + i]) / 255.0f);
  }
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  std::printf("%.0f samples/s of 16384 bytes\n", 256 / taken.count());
}

}  // namespace
}  // namespace lumen::data
