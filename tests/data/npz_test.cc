// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/npz.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "lumen/core/error.h"
#include "test_files.h"

namespace lumen::data {
namespace {

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

template <class T>
NpyArray NewArray(char kind, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
  NpyArray array;
  array.kind = kind;
  array.width = sizeof(T);
  array.shape = std::move(shape);
  array.bytes = Bytes(values);
  return array;
}

// A .npy file with a given header text.
std::string Npy(const std::string& header, const std::string& values,
                char version = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += version;
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(header.size() >> 8 * i & 0xff);
  }
  return bytes + header + values;
}

std::string Header(const std::string& type, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran +
         ", 'shape': " + shape + ", }  \n";
}

TEST(Npy, EveryVersionAndSpellingOfTheHeaderIsRead) {
  const std::string values = Bytes<float>({1, 2, 3, 4, 5, 6});
  for (const char version : {1, 2, 3}) {
    const NpyArray array =
        ParseNpy(Npy(Header("<f4", "(2, 3)"), values, version), "memory");
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(array.ToFloat(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
  for (const std::string header :
       {"{\"shape\":(6,),\"descr\":\"<f4\",\"fortran_order\":False}",
        "{ 'shape' : ( 6 , ) , 'fortran_order' : True, 'descr' : '<f4' , }",
        "{'descr':'=f4','fortran_order':False,'shape':(6,)}\n"}) {
    EXPECT_EQ(ParseNpy(Npy(header, values), "memory").ToFloat(),
              (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Npy, ScalarsAndEmptyArraysAreRead) {
  EXPECT_EQ(
      ParseNpy(Npy(Header("<f4", "()"), Bytes<float>({7})), "m").ToFloat(),
      std::vector<float>{7});
  EXPECT_TRUE(
      ParseNpy(Npy(Header("<i8", "(0, 5)"), ""), "m").ToInt64().empty());
  EXPECT_TRUE(
      ParseNpy(Npy(Header("<f4", "(9223372036854775807, 9, 0)"), ""), "m")
          .ToFloat()
          .empty());
}

TEST(Npy, FortranOrderIsTransposed) {
  // Column-major 2x3: columns (1, 2), (3, 4), (5, 6).
  const NpyArray array = ParseNpy(
      Npy(Header("<i2", "(2, 3)", "True"), Bytes<int16_t>({1, 2, 3, 4, 5, 6})),
      "memory");
  EXPECT_EQ(array.ToInt64(), (std::vector<int64_t>{1, 3, 5, 2, 4, 6}));
}

TEST(Npy, BigEndianIsSwapped) {
  EXPECT_EQ(ParseNpy(Npy(Header(">i4", "(2,)"),
                         std::string("\0\0\1\2\xff\xff\xff\xfe", 8)),
                     "memory")
                .ToInt64(),
            (std::vector<int64_t>{258, -2}));
}

TEST(Npy, EveryTypeConvertsExactly) {
  EXPECT_EQ(NewArray<int8_t>('i', {2}, {-128, 127}).ToFloat(),
            (std::vector<float>{-128, 127}));
  EXPECT_EQ(NewArray<uint16_t>('u', {1}, {65535}).ToFloat(),
            std::vector<float>{65535});
  EXPECT_EQ(NewArray<int32_t>('i', {1}, {1 << 24}).ToFloat(),
            std::vector<float>{1 << 24});
  EXPECT_EQ(NewArray<uint64_t>('u', {1}, {uint64_t{1} << 63}).ToFloat(),
            std::vector<float>{0x1p63f});
  EXPECT_EQ(NewArray<double>('f', {1}, {0.1}).ToFloat(),
            std::vector<float>{0.1f});
  EXPECT_EQ(NewArray<uint8_t>('b', {2}, {0, 1}).ToInt64(),
            (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(NewArray<float>('f', {2}, {-0x1p63f, 3}).ToInt64(),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 3}));
  EXPECT_EQ(NewArray<uint16_t>('f', {6},
                               {0x0000, 0x3c00, 0xc000, 0x0001, 0x7bff, 0x03ff})
                .ToFloat(),
            (std::vector<float>{0, 1, -2, 0x1p-24f, 65504, 1023 * 0x1p-24f}));
  EXPECT_EQ(NewArray<uint16_t>('f', {1}, {0xfc00}).ToFloat()[0], -INFINITY);
  EXPECT_TRUE(std::isnan(NewArray<uint16_t>('f', {1}, {0x7e00}).ToFloat()[0]));
}

TEST(Npy, ValuesThatDoNotFitAreErrorsNamingTheElement) {
  ExpectError<SpecError>(
      [] {
        NewArray<int32_t>('i', {2}, {1, (1 << 24) + 1}).ToFloat();
      },
      {"element 1", "16777217", "float32"});
  ExpectError<SpecError>(
      [] {
        NewArray<int64_t>('i', {1}, {std::numeric_limits<int64_t>::max()})
            .ToFloat();
      },
      {"element 0"});
  ExpectError<SpecError>(
      [] {
        NewArray<uint64_t>('u', {1}, {std::numeric_limits<uint64_t>::max()})
            .ToFloat();
      },
      {"element 0"});
  ExpectError<SpecError>([] { NewArray<double>('f', {1}, {1e300}).ToFloat(); },
                         {"1e+300"});
  ExpectError<SpecError>(
      [] { NewArray<uint64_t>('u', {1}, {uint64_t{1} << 63}).ToInt64(); },
      {"9223372036854775808", "int64"});
  for (const float value : {0.5f, NAN, INFINITY, 0x1p63f}) {
    EXPECT_THROW(NewArray<float>('f', {1}, {value}).ToInt64(), SpecError);
  }
}

TEST(Npy, DamagedHeadersAreErrorsSayingWhatWasFound) {
  const auto parse = [](const std::string& bytes) {
    return [bytes] { ParseNpy(bytes, "f.npy"); };
  };
  const std::string values = Bytes<float>({1, 2, 3, 4, 5, 6});
  ExpectError<IoError>(parse("not numpy at all"), {"f.npy", "magic"});
  ExpectError<IoError>(parse(""), {"f.npy", "cut short"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(6,)"), values, 4)),
                       {"f.npy", "version 4.0"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(7,)"), values)),
                       {"found 24 bytes", "expected 28", "float32", "(7)"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(5,)"), values)),
                       {"found 24 bytes", "expected 20"});
  ExpectError<IoError>(
      parse(Npy(Header("<f4", "(4611686018427387904, 4)"), values)),
      {"more than 2^63"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(99999999999999999999,)"), "")),
                       {"beyond 2^63"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(6)"), values)), {"tuple"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(-6,)"), values)),
                       {"'-'", "expected a dimension"});
  ExpectError<IoError>(parse(Npy(Header("<c8", "(3,)"), values)),
                       {"\"<c8\"", "expected float16"});
  ExpectError<IoError>(parse(Npy(Header("|f4", "(6,)"), values)), {"\"|f4\""});
  ExpectError<IoError>(parse(Npy(Header("", "(6,)"), values)), {"\"\""});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(6,)", "0"), values)),
                       {"True or False"});
  ExpectError<IoError>(
      parse(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': "
                "(6,)}",
                values)),
      {"structured"});
  ExpectError<IoError>(parse(Npy("{'descr': '<f4', 'shape': (6,)}", values)),
                       {"missing"});
  ExpectError<IoError>(
      parse(Npy("{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}", values)),
      {"\"descr\"", "once"});
  ExpectError<IoError>(parse(Npy(Header("<f4", "(6,)") + "x", values)),
                       {"after the header"});
  ExpectError<IoError>(parse(Npy(std::string(70000, ' '), values, 2)),
                       {"70000"});
}

TEST(Npy, NoTruncationOrFlipCrashes) {
  const std::string whole =
      Npy(Header("<f4", "(2, 3)", "True"), Bytes<float>({1, 2, 3, 4, 5, 6}));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(ParseNpy(whole.substr(0, size), "f.npy"), IoError);
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      try {
        const NpyArray array = ParseNpy(damaged, "f.npy");
        EXPECT_EQ(array.bytes.size(), 24u);
        EXPECT_EQ(array.elements() * array.width, 24);
      } catch (const IoError&) {
      }
    }
  }
}

std::map<std::string, NpyArray> Sample() {
  std::vector<float> weights(600);
  std::iota(weights.begin(), weights.end(), -3.5f);
  return {{"fc1.weight", NewArray('f', {20, 30}, weights)},
          {"fc1.bias", NewArray<float>('f', {2}, {1, 2})},
          {"steps", NewArray<int64_t>('i', {}, {42})},
          {"none", NewArray<float>('f', {0}, {})}};
}

void ExpectSample(const std::map<std::string, NpyArray>& arrays) {
  const std::map<std::string, NpyArray> sample = Sample();
  ASSERT_EQ(arrays.size(), sample.size());
  for (const auto& [name, array] : sample) {
    const NpyArray& found = arrays.at(name);
    EXPECT_EQ(found.shape, array.shape) << name;
    EXPECT_EQ(found.TypeName(), array.TypeName()) << name;
    EXPECT_EQ(found.bytes, array.bytes) << name;
  }
}

TEST(Npz, ArraysComeBack) {
  const TestFolder folder;
  WriteNpz(folder.File("a.npz"), Sample());
  ExpectSample(ReadNpz(folder.File("a.npz")));
  WriteNpy(folder.File("w.npy"), Sample().at("fc1.weight"));
  EXPECT_EQ(ReadNpy(folder.File("w.npy")).bytes,
            Sample().at("fc1.weight").bytes);
  WriteNpz(folder.File("b.npz"), Sample());
  EXPECT_EQ(Load(folder.File("a.npz")), Load(folder.File("b.npz")));
}

TEST(Npz, AReferenceNamesOneArray) {
  const TestFolder folder;
  const std::string path = folder.File("a.npz");
  WriteNpz(path, Sample());
  EXPECT_EQ(ReadArray(path + ":steps").ToInt64(), std::vector<int64_t>{42});
  const NpyHeader header = ReadArrayHeader(path + ":fc1.weight");
  EXPECT_EQ(header.shape, (std::vector<int64_t>{20, 30}));
  EXPECT_EQ(ReferencedFile(path + ":steps"), path);
  ExpectError<IoError>([&] { ReadArray(path + ":fc2"); },
                       {path, "no array \"fc2\"", "fc1.weight", "steps"});
  ExpectError<IoError>([&] { ReadArray(path); }, {"no array named", "steps"});
  WriteNpz(path, {{"only", Sample().at("steps")}});
  EXPECT_EQ(ReadArray(path).ToInt64(), std::vector<int64_t>{42});
  WriteNpy(folder.File("x.npy"), Sample().at("steps"));
  EXPECT_EQ(ReadArray(folder.File("x.npy")).ToInt64(),
            std::vector<int64_t>{42});
}

TEST(Npz, FilesThatAreNotAreErrors) {
  const TestFolder folder;
  ExpectError<IoError>([&] { ReadNpz(folder.File("none.npz")); },
                       {"none.npz", "No such file"});
  ExpectError<IoError>([&] { ReadNpy(folder.File("none.npy")); },
                       {"none.npy", "cannot be opened"});
  Store(folder.File("junk.npz"), std::string(3000, 'j'));
  ExpectError<IoError>([&] { ReadNpz(folder.File("junk.npz")); },
                       {"junk.npz", "zip"});
  EXPECT_THROW(ReadNpy(folder.path()), IoError);
  EXPECT_THROW(ReadNpz(folder.path()), IoError);
  EXPECT_THROW(WriteNpy(folder.File("no/x.npy"), Sample().at("steps")),
               IoError);
  EXPECT_THROW(WriteNpz(folder.File("no/x.npz"), Sample()), IoError);
  EXPECT_THROW(WriteNpz(folder.File("x.npz"), {}), IoError);
}

// Deflated with Python, as np.savez_compressed does.
bool Deflate(const std::string& from, const std::string& to) {
  std::string output;
  return RunPython("import zipfile\na = zipfile.ZipFile('" + from +
                       "')\nb = zipfile.ZipFile('" + to +
                       "', 'w', zipfile.ZIP_DEFLATED)\n"
                       "for n in a.namelist(): b.writestr(n, a.read(n))\n"
                       "b.close()\n",
                   &output);
}

TEST(Npz, NoTruncationOrFlipCrashesOrChangesValues) {
  const TestFolder folder;
  const std::string path = folder.File("a.npz");
  const std::string deflated = folder.File("deflated.npz");
  WriteNpz(path, Sample());
  std::vector<std::string> files = {Load(path)};
  if (Deflate(path, deflated)) files.push_back(Load(deflated));
  for (const std::string& whole : files) {
    for (size_t size = 0; size < whole.size(); size += 37) {
      Store(path, whole.substr(0, size));
      EXPECT_THROW(ReadNpz(path), IoError) << size;
    }
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      Store(path, damaged);
      try {
        // The CRC guards the members; a flipped name is another name.
        for (const auto& [name, array] : ReadNpz(path)) {
          const std::map<std::string, NpyArray> sample = Sample();
          if (sample.contains(name)) {
            EXPECT_EQ(array.bytes, sample.at(name).bytes) << at;
          }
        }
      } catch (const IoError&) {
      }
    }
  }
}

TEST(Npz, NumpyReadsWhatWasWritten) {
  if (!PythonHas("numpy")) GTEST_SKIP() << "python3-numpy is not installed";
  const TestFolder folder;
  WriteNpz(folder.File("a.npz"), Sample());
  WriteNpy(folder.File("a.npy"), NewArray<uint8_t>('b', {2}, {1, 0}));
  std::string output;
  ASSERT_TRUE(
      RunPython("import numpy as np\na = np.load('" + folder.File("a.npz") +
                    "')\n"
                    "assert a['fc1.weight'].dtype == '<f4'\n"
                    "assert (a['fc1.weight'] == np.arange(600).reshape("
                    "20, 30) - 3.5).all()\n"
                    "assert a['steps'][()] == 42\n"
                    "assert a['none'].shape == (0,)\n"
                    "assert np.load('" +
                    folder.File("a.npy") + "').tolist() == [True, False]\n",
                &output))
      << output;
}

TEST(Npz, WhatNumpyWroteIsRead) {
  if (!PythonHas("numpy")) GTEST_SKIP() << "python3-numpy is not installed";
  const TestFolder folder;
  std::string output;
  ASSERT_TRUE(RunPython(
      "import numpy as np\nx = np.arange(24).reshape(2, 3, 4)\nd = {}\n"
      "for t in ['<f2', '>f2', '<f4', '>f4', '<f8', '>f8', 'i1', '<i2', '>i2', "
      "'<i4', '>i4', '<i8', '>i8', 'u1', '<u2', '>u2', '<u4', '>u4', '<u8', "
      "'>u8']:\n"
      "  d[t[-2:] + str(len(d))] = x.astype(t)\n"
      "  d[t[-2:] + str(len(d))] = np.asfortranarray(x.astype(t))\n"
      "d['b'] = x % 2 == 1\n"
      "np.savez('" +
          folder.File("a.npz") + "', **d)\nnp.savez_compressed('" +
          folder.File("b.npz") + "', **d)\n",
      &output))
      << output;
  for (const char* name : {"a.npz", "b.npz"}) {
    const std::map<std::string, NpyArray> arrays = ReadNpz(folder.File(name));
    ASSERT_EQ(arrays.size(), 41u);
    for (const auto& [key, array] : arrays) {
      EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3, 4}));
      const std::vector<int64_t> integers = array.ToInt64();
      const std::vector<float> floats = array.ToFloat();
      for (int64_t i = 0; i < 24; ++i) {
        EXPECT_EQ(integers[i], key == "b" ? i % 2 : i) << key;
        EXPECT_EQ(floats[i], static_cast<float>(integers[i])) << key;
      }
    }
  }
}

TEST(Npz, ReferenceFilesAgreeWithNumpy) {
  const std::string folder = LUMEN_SHARED_DATA "/formats";
  if (!std::filesystem::exists(folder + "/tiny_resnet.npz")) {
    GTEST_SKIP() << folder << " is not there";
  }
  const auto stored = ReadNpz(folder + "/tiny_resnet.npz");
  const auto deflated = ReadNpz(folder + "/tiny_resnet_compressed.npz");
  EXPECT_EQ(stored.size(), 38u);
  ASSERT_EQ(deflated.size(), stored.size());
  for (const auto& [name, array] : stored) {
    EXPECT_EQ(deflated.at(name).bytes, array.bytes);
  }
  if (!PythonHas("numpy")) GTEST_SKIP() << "python3-numpy is not installed";
  for (const auto& [name, array] : stored) {
    std::string output;
    if (name != "conv1.weight" && name != "bn1.running_var") continue;
    ASSERT_TRUE(RunPython(
        "import numpy as np, sys\nsys.stdout.write(np.load('" + folder +
            "/tiny_resnet.npz')['" + name + "'].tobytes().hex())\n",
        &output));
    std::string hex;
    for (const char byte : array.bytes) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x",
                    static_cast<unsigned char>(byte));
      hex += digits;
    }
    EXPECT_EQ(hex, output);
  }
  EXPECT_EQ(ReadNpy(folder + "/input.npy").shape,
            (std::vector<int64_t>{4, 3, 40, 56}));
}

}  // namespace
}  // namespace lumen::data
