// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/h5_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "lumen/core/error.h"
#include "test_files.h"

namespace lumen::data {
namespace {

std::vector<float> Ramp(int64_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

TEST(H5File, ValuesComeBackForEveryShape) {
  const TestFolder folder;
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {0}, {1}, {10}, {1000}, {3, 4}, {0, 5}, {2, 3, 4}, {2, 1, 3, 2, 5}};
  {
    H5Writer writer(folder.File("a.h5"));
    for (size_t i = 0; i < shapes.size(); ++i) {
      int64_t size = 1;
      for (const int64_t n : shapes[i]) size *= n;
      std::vector<int64_t> integers(size);
      std::iota(integers.begin(), integers.end(), int64_t{1} << 40);
      const std::string name = "/group/" + std::to_string(i);
      writer.Write(name + "/float", Ramp(size), shapes[i]);
      writer.Write(name + "/integer", integers, shapes[i]);
    }
    writer.Close();
  }
  const H5Reader reader(folder.File("a.h5"));
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "/group/" + std::to_string(i);
    const ArrayInfo info = reader.Info(name + "/float");
    EXPECT_EQ(info.shape, shapes[i]);
    EXPECT_EQ(info.type, ElementType::kFloat32);
    EXPECT_EQ(reader.Info(name + "/integer").type, ElementType::kInt64);
    int64_t size = 1;
    for (const int64_t n : shapes[i]) size *= n;
    std::vector<float> floats(size);
    reader.Read(name + "/float", 0, floats);
    EXPECT_EQ(floats, Ramp(size));
    std::vector<int64_t> integers(size);
    reader.Read(name + "/integer", 0, integers);
    for (int64_t k = 0; k < size; ++k) {
      EXPECT_EQ(integers[k], (int64_t{1} << 40) + k);
    }
  }
}

TEST(H5File, EveryRangeOfAnArrayIsReadAndWrittenInPlace) {
  const TestFolder folder;
  const std::vector<int64_t> shape = {3, 4, 5};
  {
    H5Writer writer(folder.File("a.h5"));
    writer.Create("/parts", ElementType::kFloat32, shape);
    const std::vector<float> values = Ramp(60);
    for (int64_t begin = 0; begin < 60; begin += 7) {
      const int64_t count = std::min<int64_t>(7, 60 - begin);
      writer.WritePart("/parts", begin,
                       std::span(values).subspan(begin, count));
    }
    writer.Close();
  }
  const H5Reader reader(folder.File("a.h5"));
  for (int64_t begin = 0; begin <= 60; ++begin) {
    for (int64_t end = begin; end <= 60; ++end) {
      std::vector<float> part(end - begin);
      reader.Read("/parts", begin, part);
      for (int64_t i = begin; i < end; ++i) {
        ASSERT_EQ(part[i - begin], static_cast<float>(i) + 0.5f);
      }
    }
  }
}

TEST(H5File, NarrowIntegersAndDoublesTakeParts) {
  const TestFolder folder;
  const std::vector<int64_t> bytes = {0, 7, 255};
  const std::vector<int64_t> words = {-5, 0, std::numeric_limits<int>::max()};
  H5Writer writer(folder.File("a.h5"));
  writer.Create("/u1", ElementType::kUint8, {3});
  writer.Create("/i4", ElementType::kInt32, {3});
  writer.Create("/f8", ElementType::kFloat64, {3});
  writer.WritePart("/u1", 0, bytes);
  writer.WritePart("/i4", 0, words);
  writer.WritePart("/f8", 0, Ramp(3));
  writer.Close();
  const H5Reader reader(folder.File("a.h5"));
  std::vector<int64_t> integers(3);
  reader.Read("/u1", 0, integers);
  EXPECT_EQ(integers, bytes);
  reader.Read("/i4", 0, integers);
  EXPECT_EQ(integers, words);
  std::vector<float> floats(3);
  reader.Read("/u1", 0, floats);
  EXPECT_EQ(floats, (std::vector<float>{0, 7, 255}));
  EXPECT_EQ(reader.Info("/f8").type, ElementType::kFloat64);
}

TEST(H5File, SpecialFloatsKeepTheirBits) {
  const TestFolder folder;
  const std::vector<float> values = {
      -0.0f, std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::denorm_min(), std::nanf("")};
  H5Writer writer(folder.File("a.h5"));
  writer.Write("/x", values, {4});
  writer.Close();
  std::vector<float> read(4);
  H5Reader(folder.File("a.h5")).Read("/x", 0, read);
  EXPECT_EQ(std::memcmp(read.data(), values.data(), sizeof(float) * 4), 0);
}

TEST(H5File, TextsComeBack) {
  const TestFolder folder;
  const std::string texts[] = {"", "{}", "Gr\u00fc\u00dfe\n",
                               std::string(1 << 20, 'x')};
  H5Writer writer(folder.File("a.h5"));
  for (const std::string& text : texts) {
    writer.WriteText("/t" + std::to_string(text.size()), text);
  }
  writer.Close();
  const H5Reader reader(folder.File("a.h5"));
  for (const std::string& text : texts) {
    EXPECT_EQ(reader.ReadText("/t" + std::to_string(text.size())), text);
  }
}

TEST(H5File, ListIsSortedAndHoldsArraysOnly) {
  const TestFolder folder;
  H5Writer writer(folder.File("a.h5"));
  for (const char* name : {"/b/y", "/b/x", "/a", "/b.c"}) {
    writer.Write(name, Ramp(2), {2});
  }
  writer.WriteText("/spec", "text");
  writer.Close();
  const H5Reader reader(folder.File("a.h5"));
  std::vector<std::string> names;
  for (const ArrayInfo& info : reader.List()) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"/a", "/b.c", "/b/x", "/b/y"}));
  EXPECT_TRUE(reader.Has("/b/x"));
  EXPECT_TRUE(reader.Has("/spec"));
  EXPECT_FALSE(reader.Has("/b"));
  EXPECT_FALSE(reader.Has("/b/z"));
  EXPECT_FALSE(reader.Has("/no/such/array"));
  EXPECT_FALSE(reader.Has("/"));
}

TEST(H5File, ErrorsNameFileArrayFoundAndExpected) {
  const TestFolder folder;
  const std::string path = folder.File("a.h5");
  {
    H5Writer writer(path);
    writer.Write("/g/x", Ramp(6), {2, 3});
    writer.WriteText("/text", "t");
    ExpectError<IoError>([&] { writer.Write("/g/x", Ramp(1), {1}); },
                         {path, "/g/x", "exists"});
    writer.Close();
  }
  const H5Reader reader(path);
  std::vector<float> floats(7);
  std::vector<int64_t> integers(6);
  ExpectError<IoError>([&] { reader.Read("/g/x", 0, floats); },
                       {path, "/g/x", "found 6 elements (2x3)", "expected 7"});
  ExpectError<IoError>([&] { reader.Read("/g/x", 0, integers); },
                       {path, "/g/x", "found float32", "expected an integer"});
  ExpectError<IoError>([&] { reader.Read("/g/y", 0, floats); },
                       {path, "/g/y", "found nothing"});
  ExpectError<IoError>([&] { reader.Info("/g"); }, {path, "/g", "group"});
  ExpectError<IoError>([&] { reader.Info("/text"); }, {"/text", "found text"});
  ExpectError<IoError>([&] { reader.ReadText("/g/x"); },
                       {"/g/x", "float32", "expected one text"});
  ExpectError<IoError>([&] { H5Reader(folder.File("none.h5")); },
                       {"none.h5", "No such file"});
  ExpectError<IoError>([&] { H5Reader reader(folder.path()); },
                       {"no regular file"});
  ExpectError<IoError>([&] { H5Writer(folder.File("no/such/a.h5")); },
                       {"no/such/a.h5", "No such file"});
  Store(folder.File("junk"), std::string(5000, 'j'));
  ExpectError<IoError>([&] { H5Reader(folder.File("junk")); },
                       {"junk", "cannot be read as HDF5"});
  Store(folder.File("empty"), "");
  ExpectError<IoError>([&] { H5Reader(folder.File("empty")); },
                       {"empty", "cannot be read as HDF5"});
}

TEST(H5File, EqualContentGivesEqualBytes) {
  const TestFolder folder;
  for (const char* name : {"a.h5", "b.h5"}) {
    H5Writer writer(folder.File(name));
    writer.Write("/g/h/x", Ramp(100), {100});
    writer.WriteText("/g/spec", "{}");
    writer.Close();
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  EXPECT_EQ(Load(folder.File("a.h5")), Load(folder.File("b.h5")));
}

TEST(H5File, PositionsBeyond32BitsAreExact) {
  const TestFolder folder;
  const std::string path = folder.File("sparse.h5");
  const int64_t size = (int64_t{1} << 33) + 5;  // 32 GiB, nearly all of it hole
  {
    H5Writer writer(path);
    writer.Create("/x", ElementType::kFloat32, {size});
    for (const int64_t at : {int64_t{0}, (int64_t{1} << 32) + 1, size - 3}) {
      writer.WritePart("/x", at, Ramp(3));
    }
    writer.Close();
  }
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  if (status.st_blocks * 512 > (int64_t{1} << 30)) {
    GTEST_SKIP() << "this file system has no sparse files";
  }
  const H5Reader reader(path);
  for (const int64_t at : {int64_t{0}, (int64_t{1} << 32) + 1, size - 3}) {
    std::vector<float> part(3);
    reader.Read("/x", at, part);
    EXPECT_EQ(part, Ramp(3));
  }
}

TEST(H5File, AWriterAndReadersCoexist) {
  const TestFolder folder;
  {
    H5Writer writer(folder.File("a.h5"));
    writer.Write("/x", Ramp(100000), {100000});
    writer.Close();
  }
  std::thread background([&] {
    for (int i = 0; i < 20; ++i) {
      H5Writer writer(folder.File("b.h5"));
      for (int k = 0; k < 10; ++k) {
        writer.Write("/x" + std::to_string(k), Ramp(5000), {5000});
      }
      writer.Close();
    }
  });
  for (int i = 0; i < 50; ++i) {
    const H5Reader first(folder.File("a.h5"));
    const H5Reader second(folder.File("a.h5"));
    std::vector<float> values(100000);
    second.Read("/x", 0, values);
    ASSERT_EQ(values, Ramp(100000));
    first.Read("/x", 0, values);
    ASSERT_EQ(values, Ramp(100000));
  }
  background.join();
}

TEST(H5File, H5pyReadsWhatWasWritten) {
  if (!PythonHas("h5py")) GTEST_SKIP() << "python3-h5py is not installed";
  const TestFolder folder;
  H5Writer writer(folder.File("a.h5"));
  writer.Write("/p/w", Ramp(6), {2, 3});
  writer.Write("/p/i", std::vector<int64_t>{1, -2}, {2});
  writer.WriteText("/spec", "Gr\u00fc\u00dfe");
  writer.Close();
  std::string output;
  ASSERT_TRUE(RunPython("import h5py\nf = h5py.File('" + folder.File("a.h5") +
                            "', 'r')\n"
                            "assert f['/p/w'].dtype == '<f4'\n"
                            "assert f['/p/w'][()].tolist() == "
                            "[[.5, 1.5, 2.5], [3.5, 4.5, 5.5]]\n"
                            "assert f['/p/i'][()].tolist() == [1, -2]\n"
                            "assert f['/spec'][()].decode() == 'Grüße'\n",
                        &output))
      << output;
}

TEST(H5File, WhatH5pyWroteIsRead) {
  if (!PythonHas("h5py")) GTEST_SKIP() << "python3-h5py is not installed";
  const TestFolder folder;
  std::string output;
  ASSERT_TRUE(RunPython(
      "import h5py, numpy as np\nf = h5py.File('" + folder.File("a.h5") +
          "', 'w')\n"
          "f['f'] = np.arange(6, dtype='>f4').reshape(2, 3)\n"
          "f['h'] = np.arange(6, dtype='f2')\n"
          "f['u'] = np.arange(6, dtype='u2')\n"
          "f['t'] = 'text'\n"
          "f['u8'] = np.arange(3, dtype='u8')\n"
          "f.create_dataset('z', data=np.arange(1000, dtype='i4'), "
          "chunks=(64,), compression='gzip', fletcher32=True)\n",
      &output))
      << output;
  const H5Reader reader(folder.File("a.h5"));
  std::vector<float> floats(6);
  for (const char* name : {"/f", "/h", "/u"}) {
    reader.Read(name, 0, floats);
    EXPECT_EQ(floats, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
  EXPECT_EQ(reader.ReadText("/t"), "text");
  std::vector<int64_t> integers(3);
  reader.Read("/z", 997, integers);
  EXPECT_EQ(integers, (std::vector<int64_t>{997, 998, 999}));
  ExpectError<IoError>([&] { reader.Read("/u8", 0, integers); },
                       {"/u8", "found uint64"});
}

TEST(H5File, ReferenceFileIsRead) {
  const std::string path = LUMEN_SHARED_DATA "/formats/tiny_resnet.h5";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const H5Reader reader(path);
  const std::vector<ArrayInfo> arrays = reader.List();
  EXPECT_EQ(arrays.size(), 38u);
  for (const ArrayInfo& info : arrays) {
    int64_t size = 1;
    for (const int64_t n : info.shape) size *= n;
    if (info.type == ElementType::kFloat32) {
      std::vector<float> values(size);
      reader.Read(info.name, 0, values);
      for (const float value : values) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

}  // namespace
}  // namespace lumen::data
