// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/tensor_file.h"

#include <cmath>
#include <cstring>

#include "lumen/core/error.h"
#include "lumen/data/npz.h"
#include "lumen/data/safetensors.h"
#include "test_files.h"

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

// Writes the same tensors in every format that this program writes.
std::vector<std::string> Written(
    const TestFolder& folder, const std::map<std::string, NpyArray>& arrays) {
  WriteNpz(folder.File("m.npz"), arrays);
  WriteSafetensors(folder.File("m.safetensors"), {arrays, {}});
  return {folder.File("m.npz"), folder.File("m.safetensors")};
}

TEST(TensorFile, EveryFormatGivesTheSameFloats) {
  const TestFolder folder;
  for (const std::string& path :
       Written(folder,
               {{"fc.weight", NewArray<float>('f', {2, 1}, {0.1f, -3})},
                {"d", NewArray<double>('f', {1}, {0.1})},
                {"bn.num_batches_tracked", NewArray<int64_t>('i', {}, {977})},
                {"none", NewArray<float>('f', {0}, {})}})) {
    const auto tensors = ReadTensorFile(path);
    ASSERT_EQ(tensors.size(), 4u) << path;
    EXPECT_EQ(tensors.at("fc.weight").shape, (std::vector<int64_t>{2, 1}));
    EXPECT_EQ(tensors.at("fc.weight").values, (std::vector<float>{0.1f, -3}));
    EXPECT_EQ(tensors.at("d").values, std::vector<float>{0.1f});
    EXPECT_TRUE(tensors.at("bn.num_batches_tracked").shape.empty());
    EXPECT_EQ(tensors.at("bn.num_batches_tracked").values,
              std::vector<float>{977});
    EXPECT_EQ(tensors.at("none").shape, std::vector<int64_t>{0});
  }
}

TEST(TensorFile, ValuesThatFloatCannotHoldNameFileAndTensor) {
  const TestFolder folder;
  for (const std::string& path :
       Written(folder, {{"a", NewArray<int64_t>('i', {2}, {1, 16777217})}})) {
    ExpectError<IoError>([&] { ReadTensorFile(path); },
                         {path + ": a: element 1: 16777217", "float32"});
  }
  for (const std::string& path :
       Written(folder, {{"a", NewArray<double>('f', {1}, {1e300})}})) {
    ExpectError<IoError>([&] { ReadTensorFile(path); },
                         {path + ": a: element 0"});
  }
}

TEST(TensorFile, UnknownExtensionsNameTheKnownOnes) {
  for (const std::string path : {"m.bin", "m", "dir.npz/m", "m.npz.tmp"}) {
    ExpectError<IoError>(
        [&] { ReadTensorFile(path); },
        {path + ": found the extension", ".npz, .safetensors"});
  }
  ExpectError<IoError>([&] { ReadTensorFile("absent.safetensors"); },
                       {"absent.safetensors"});
}

class SharedTensors : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return std::string(LUMEN_SHARED_DATA) + "/formats/" + name;
  }
  bool Has(const std::string& name) const {
    return std::filesystem::exists(Path(name));
  }
};

TEST_F(SharedTensors, AModelIsTheSameInEveryFormat) {
  const auto expected = Has("tiny_resnet.npz")
                            ? ReadTensorFile(Path("tiny_resnet.npz"))
                            : std::map<std::string, FloatTensor>();
  if (expected.empty()) GTEST_SKIP() << "no " << Path("tiny_resnet.npz");
  EXPECT_GT(expected.size(), 20u);
  for (const std::string name :
       {"tiny_resnet_compressed.npz", "tiny_resnet.safetensors"}) {
    const auto found = ReadTensorFile(Path(name));
    EXPECT_EQ(found.size(), expected.size()) << name;
    for (const auto& [tensor, value] : expected) {
      ASSERT_TRUE(found.contains(tensor)) << name << " lacks " << tensor;
      const FloatTensor& other = found.at(tensor);
      EXPECT_EQ(other.shape, value.shape) << name << " " << tensor;
      ASSERT_EQ(other.values.size(), value.values.size());
      EXPECT_EQ(std::memcmp(other.values.data(), value.values.data(),
                            4 * value.values.size()),
                0)
          << name << " " << tensor;
    }
  }
  EXPECT_EQ(expected.at("conv1.weight").shape,
            (std::vector<int64_t>{8, 3, 7, 7}));
}

TEST_F(SharedTensors, AFileOfHuggingFaceIsRead) {
  const std::string name = "opendiloco-llama-2m-fresh.safetensors";
  if (!Has(name)) GTEST_SKIP() << "no " << Path(name);
  const auto tensors = ReadTensorFile(Path(name));
  EXPECT_EQ(tensors.size(), 21u);
  for (const auto& [tensor, value] : tensors) {
    int64_t elements = 1;
    for (const int64_t size : value.shape) elements *= size;
    EXPECT_EQ(static_cast<int64_t>(value.values.size()), elements) << tensor;
    for (const float x : value.values) ASSERT_TRUE(std::isfinite(x)) << tensor;
  }
  const Safetensors content = ReadSafetensors(Path(name));
  const TestFolder folder;
  WriteSafetensors(folder.File("copy.safetensors"), content);
  const Safetensors copy = ReadSafetensors(folder.File("copy.safetensors"));
  EXPECT_EQ(copy.metadata, content.metadata);
  for (const auto& [tensor, array] : content.tensors) {
    EXPECT_EQ(copy.tensors.at(tensor).bytes, array.bytes) << tensor;
  }
}

}  // namespace
}  // namespace lumen::data
