// SPDX-License-Identifier: Apache-2.0
// Readers of arrays: IDX, CIFAR, NumPy, HDF5 and files of tensors.
#include <hdf5.h>

#include "fuzz/fuzz.h"
#include "lumen/core/error.h"
#include "lumen/data/h5_file.h"
#include "lumen/data/npz.h"
#include "lumen/data/safetensors.h"
#include "lumen/data/tensor_file.h"
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

const NpyArray kX = NewArray<float>('f', {3, 2}, {1, -2, 3, 4, 5, 1e9f});
const NpyArray kY = NewArray<int64_t>('i', {3}, {0, 1, 1});

std::string NpyBytes(const NpyArray& array) {
  const TestFolder folder;
  WriteNpy(folder.File("a.npy"), array);
  return Load(folder.File("a.npy"));
}

std::string PairSpec(const std::string& type, const std::string& x,
                     const std::string& y) {
  return R"({"type": ")" + type + R"(", "root": "FOLDER", "classes": 2, )" +
         R"("train": {"x": ")" + x + R"(", "y": ")" + y + "\"}}";
}

TEST(Fuzz, IdxIsReadOrRefused) {
  FuzzDatasets({{PairSpec("idx", "x", "y"),
                 {{"x", Idx({3, 2, 2}, "abcdefghijkl")},
                  {"y", Idx({3}, std::string("\0\1\1", 3))}}}},
               1500);
}

TEST(Fuzz, CifarIsReadOrRefused) {
  std::string bytes;
  for (const char label : {'\0', '\7', '\3'}) {
    bytes += label + std::string(3072, 'x');
  }
  FuzzDatasets({{R"({"type": "cifar", "root": "FOLDER", "train": ["t"],
          "test": ["t"]})",
                 {{"t", bytes}}}},
               300);
}

TEST(Fuzz, NpyIsReadOrRefused) {
  FuzzDatasets({{PairSpec("npy", "x.npy", "y.npy"),
                 {{"x.npy", NpyBytes(kX)}, {"y.npy", NpyBytes(kY)}}}},
               1500,
               {"'<f8'", "True", ", ", "(", ")", "99999999999", "0", "}"});
}

TEST(Fuzz, NpzIsReadOrRefused) {
  const TestFolder folder;
  WriteNpz(folder.File("a.npz"), {{"x", kX}, {"y", kY}});
  FuzzDatasets({{PairSpec("npy", "a.npz:x", "a.npz:y"),
                 {{"a.npz", Load(folder.File("a.npz"))}}}},
               1000);
}

TEST(Fuzz, Hdf5IsReadOrRefused) {
  const TestFolder folder;
  {
    H5Writer writer(folder.File("a.h5"));
    const float x[] = {1, 2, 3, 4, 5, 6};
    const int64_t y[] = {0, 1, 1};
    writer.Write("/x", std::span(x), {3, 2});
    writer.Write("/y", std::span(y), {3});
    writer.Close();
  }
  FuzzDatasets({{PairSpec("hdf5", "a.h5:/x", "a.h5:/y"),
                 {{"a.h5", Load(folder.File("a.h5"))}}}},
               500);
  // The library loses memory of its own on damaged files, and says so when the
  // program ends; nothing stays open.
  EXPECT_EQ(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

TEST(Fuzz, FilesOfTensorsAreReadOrRefused) {
  const TestFolder folder;
  const std::string paths[] = {folder.File("a.safetensors"),
                               folder.File("a.npz")};
  WriteSafetensors(
      paths[0], {.tensors = {{"fc1.weight", kX}, {"y", kY}}, .metadata = {}});
  WriteNpz(paths[1], {{"fc1.weight", kX}, {"y", kY}});
  const std::string whole[] = {Load(paths[0]), Load(paths[1])};
  FuzzLoop loop(2000);
  while (loop.Next()) {
    const size_t which = loop.Below(2);
    Store(paths[which],
          loop.Damaged(whole[which], {"\"", "{", "}", "[", ",", "\"F64\"",
                                      "99999999999", "\\u0000"}));
    try {
      for (const auto& [name, tensor] : ReadTensorFile(paths[which])) {
        int64_t elements = 1;
        for (const int64_t size : tensor.shape) elements *= size;
        ASSERT_EQ(elements, std::ssize(tensor.values)) << name;
      }
      loop.Good();
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(paths[which]));
      loop.Bad();
    }
  }
  EXPECT_GT(loop.good(), 0);
  EXPECT_GT(loop.bad(), 0);
}

}  // namespace
}  // namespace lumen::data
