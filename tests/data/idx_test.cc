// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

std::string Pixels(int64_t count) {
  std::string values(count, '\0');
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<char>(i * 37);
  return values;
}

std::string Labels(int64_t count) {
  std::string values(count, '\0');
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<char>(i % 10);
  return values;
}

class IdxTest : public testing::Test {
 protected:
  void SetUp() override {
    Store(folder_.File("x"), Idx({6, 4, 5}, Pixels(120)));
    Store(folder_.File("y"), Idx({6}, Labels(6)));
  }
  Json Spec(const std::string& more = "") const {
    return DataSpec("{\"type\": \"idx\", \"root\": \"" + folder_.path() +
                    "\", \"train\": {\"x\": \"x\", \"y\": \"y\"}, "
                    "\"classes\": 10" +
                    more + "}");
  }
  std::unique_ptr<Dataset> Open(const std::string& more = "") const {
    return OpenDataset(Spec(more), Split::kTrain);
  }
  TestFolder folder_;
};

TEST_F(IdxTest, PixelsAreScaledToOneAndLabelsKept) {
  const auto data = Open();
  EXPECT_EQ(data->size(), 6);
  EXPECT_EQ(data->shape(), (Shape{.height = 4, .width = 5}));
  EXPECT_EQ(data->classes(), 10);
  EXPECT_EQ(data->memory_bytes(), 120 + 6 * 4);
  const std::string pixels = Pixels(120);
  std::vector<float> x(20);
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(data->Read(i, x, {}), i);
    for (int64_t e = 0; e < 20; ++e) {
      const auto pixel = static_cast<uint8_t>(pixels[20 * i + e]);
      EXPECT_EQ(x[e], static_cast<float>(pixel) / 255.0f);
    }
  }
  EXPECT_EQ(OpenDataset(Spec(), Split::kTest), nullptr);
}

TEST_F(IdxTest, EveryNumberOfDimensionsHasAShape) {
  const auto shape = [&](const std::vector<int64_t>& sizes) {
    Store(folder_.File("x"), Idx(sizes, Pixels(120)));
    return Open()->shape();
  };
  EXPECT_EQ(shape({6, 20}), (Shape{.channels = 20}));
  EXPECT_EQ(shape({6, 2, 2, 5}),
            (Shape{.channels = 2, .height = 2, .width = 5}));
  Store(folder_.File("x"), Idx({6}, Pixels(6)));
  EXPECT_EQ(Open()->shape(), Shape{});
}

TEST_F(IdxTest, EveryTruncationIsAnErrorNamingTheFile) {
  for (const char* name : {"x", "y"}) {
    const std::string whole = Load(folder_.File(name));
    for (size_t size = 0; size < whole.size(); ++size) {
      Store(folder_.File(name), whole.substr(0, size));
      ExpectError<IoError>([&] { Open(); }, {folder_.File(name)});
    }
    Store(folder_.File(name), whole + "z");
    ExpectError<IoError>([&] { Open(); }, {folder_.File(name), "found more"});
    Store(folder_.File(name), whole);
  }
}

TEST_F(IdxTest, ACutFileNamesTheFirstMissingSample) {
  // A gzip file of the same content passes the size check and is cut inside.
  std::string output;
  const std::string script = "import gzip\nb = open('" + folder_.File("x") +
                             "', 'rb').read()\ngzip.open('" +
                             folder_.File("x") +
                             "', 'wb').write(b[:16 + 50])\n";
  if (!RunPython(script, &output)) GTEST_SKIP() << "no python3";
  ExpectError<IoError>([&] { Open(); },
                       {folder_.File("x"), "sample 2", "50 of the 120"});
}

TEST_F(IdxTest, WrongHeadersAreErrorsSayingWhatWasFound) {
  const auto expect = [&](const std::string& bytes, const std::string& text) {
    Store(folder_.File("x"), bytes);
    ExpectError<IoError>([&] { Open(); }, {folder_.File("x"), text});
  };
  expect("PK\3\4" + Pixels(100), "magic 504b0304");
  expect(Idx({6, 4, 5}, Pixels(120), 0x0d), "type 0x0d");
  expect(Idx({}, ""), "0 dimensions");
  expect(Idx({1, 1, 1, 1, 1}, "x"), "5 dimensions");
  expect(Idx({6, 0, 5}, ""), "no empty dimension");
  expect(Idx({0, 4, 5}, ""), "found 0 samples");
  expect(Idx({0xffffffff, 0xffffffff, 0xffffffff}, Pixels(100)), "promises");
  expect(Idx({0x40000000, 2, 2}, Pixels(100)), "promises 1073741824x2x2");
}

TEST_F(IdxTest, LabelsOutsideTheClassesAreErrorsNamingTheSample) {
  Store(folder_.File("y"), Idx({6}, std::string("\0\1\2\x0a\4\5", 6)));
  ExpectError<IoError>([&] { Open(); },
                       {folder_.File("y"), "sample 3", "label 10", "0 to 9"});
}

TEST_F(IdxTest, SizesThatDifferAreErrors) {
  Store(folder_.File("y"), Idx({5}, Labels(5)));
  ExpectError<IoError>([&] { Open(); }, {folder_.File("x"), "6 samples",
                                         "expected 5", folder_.File("y")});
  Store(folder_.File("y"), Idx({6, 1}, Labels(6)));
  ExpectError<IoError>([&] { Open(); }, {folder_.File("y"), "2 dimensions"});
}

TEST_F(IdxTest, MissingFilesNameThePathAndTheKey) {
  const auto open = [&](const std::string& x, const std::string& y) {
    const Json spec =
        DataSpec("{\"type\": \"idx\", \"root\": \"" + folder_.path() +
                 "\", \"train\": {\"x\": \"" + x + "\", \"y\": \"" + y +
                 "\"}, \"classes\": 9}");
    return [spec] { OpenDataset(spec, Split::kTrain); };
  };
  ExpectError<IoError>(open("nix", "y"), {"test.json:1: data.train.x",
                                          folder_.File("nix"), "No such file"});
  ExpectError<IoError>(open("x", "nix"),
                       {"data.train.y", folder_.File("nix"), "No such file"});
  ExpectError<IoError>(open("", "y"), {"data.train.x", "is a folder"});
  ExpectError<IoError>(open("/dev/null", "y"),
                       {"data.train.x", "/dev/null", "no regular file"});
}

TEST_F(IdxTest, DeclaredKeysAreComparedWithTheFiles) {
  EXPECT_EQ(Open(", \"shape\": [1, 4, 5], \"samples\": {\"train\": 6}")->size(),
            6);
  ExpectError<SpecError>([&] { Open(", \"shape\": [1, 5, 4]"); },
                         {"test.json:1: data.shape", "1x5x4", "1x4x5"});
  ExpectError<SpecError>([&] { Open(", \"samples\": {\"train\": 7}"); },
                         {"test.json:1: data.samples.train", "7", "6"});
  ExpectError<SpecError>([&] { Open(", \"shape\": [5, 4]"); },
                         {"data.shape", "expected [channels]"});
}

TEST_F(IdxTest, InfoReadsHeadersOrDeclaredKeys) {
  DatasetInfo info = GetDatasetInfo(Spec());
  EXPECT_EQ(info.shape, (Shape{.height = 4, .width = 5}));
  EXPECT_EQ(info.train_samples, 6);
  EXPECT_EQ(info.test_samples, 0);
  EXPECT_EQ(info.classes, 10);
  EXPECT_EQ(info.memory_bytes, Open()->memory_bytes());
  std::filesystem::remove(folder_.File("x"));
  info = GetDatasetInfo(
      Spec(", \"shape\": [1, 4, 5], \"samples\": {\"train\": 7}"));
  EXPECT_EQ(info.train_samples, 7);
  EXPECT_EQ(info.memory_bytes, 7 * (20 + 4));
  ExpectError<SpecError>(
      [&] { GetDatasetInfo(Spec()); },
      {"data.train.x", folder_.File("x"), "data.shape", "data.samples.train"});
}

TEST_F(IdxTest, TheFingerprintIsOfTheContent) {
  const uint64_t before = Open()->fingerprint();
  EXPECT_EQ(Open()->fingerprint(), before);
  std::string output;
  if (RunPython("import gzip\nb = open('" + folder_.File("x") +
                    "', 'rb').read()\ngzip.open('" + folder_.File("x") +
                    "', 'wb').write(b)\n",
                &output)) {
    EXPECT_EQ(Open()->fingerprint(), before);
  }
  std::string pixels = Pixels(120);
  pixels[119] ^= 1;
  Store(folder_.File("x"), Idx({6, 4, 5}, pixels));
  EXPECT_NE(Open()->fingerprint(), before);
  Store(folder_.File("x"), Idx({6, 5, 4}, Pixels(120)));
  EXPECT_NE(Open()->fingerprint(), before);
  Store(folder_.File("x"), Idx({6, 4, 5}, Pixels(120)));
  EXPECT_EQ(Open()->fingerprint(), before);
  std::string labels = Labels(6);
  std::swap(labels[1], labels[2]);
  Store(folder_.File("y"), Idx({6}, labels));
  EXPECT_NE(Open()->fingerprint(), before);
}

TEST_F(IdxTest, NoFlipOrTruncationOfGzipCrashesOrChangesValues) {
  std::string output;
  if (!RunPython("import gzip\nb = open('" + folder_.File("x") +
                     "', 'rb').read()\ngzip.GzipFile('" + folder_.File("x") +
                     "', 'wb', mtime=0).write(b)\n",
                 &output)) {
    GTEST_SKIP() << "no python3";
  }
  const uint64_t before = Open()->fingerprint();
  const std::string whole = Load(folder_.File("x"));
  for (size_t size = 0; size < whole.size(); ++size) {
    Store(folder_.File("x"), whole.substr(0, size));
    ExpectError<IoError>([&] { Open(); }, {folder_.File("x")});
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      Store(folder_.File("x"), damaged);
      try {
        EXPECT_EQ(Open()->fingerprint(), before) << at;
      } catch (const IoError&) {
      }
    }
  }
}

TEST_F(IdxTest, ACutGzipFileNamesASample) {
  std::string output;
  if (!RunPython("import gzip, random\nr = random.Random(1)\n"
                 "b = bytes([0, 0, 8, 2, 0, 0, 3, 232, 0, 0, 0, 100])\n"
                 "b += bytes(r.randrange(256) for _ in range(100000))\n"
                 "z = gzip.compress(b)\nopen('" +
                     folder_.File("x") + "', 'wb').write(z[:len(z) // 2])\n",
                 &output)) {
    GTEST_SKIP() << "no python3";
  }
  // Random bytes do not shrink: half of the file holds half of the samples.
  ExpectError<IoError>([&] { Open(); }, {folder_.File("x"), "sample 49",
                                         "cut short", "cannot be inflated"});
}

TEST_F(IdxTest, NoFlipOfPlainFilesCrashes) {
  const std::string whole = Load(folder_.File("x"));
  for (size_t at = 0; at < 16; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      Store(folder_.File("x"), damaged);
      EXPECT_THROW(Open(), IoError);
    }
  }
}

TEST(FashionMnist, IsReadFromDebiansPackage) {
  const std::string root = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(root)) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  const Json spec = DataSpec(
      "{\"type\": \"idx\", \"root\": \"" + root +
      "\", \"train\": {\"x\": \"train-images-idx3-ubyte.gz\", \"y\": "
      "\"train-labels-idx1-ubyte.gz\"}, \"test\": {\"x\": "
      "\"t10k-images-idx3-ubyte.gz\", \"y\": \"t10k-labels-idx1-ubyte.gz\"}, "
      "\"classes\": 10}");
  const DatasetInfo info = GetDatasetInfo(spec);
  EXPECT_EQ(info.train_samples, 60000);
  EXPECT_EQ(info.test_samples, 10000);
  EXPECT_EQ(info.shape, (Shape{.height = 28, .width = 28}));
  const auto train = OpenDataset(spec, Split::kTrain);
  const auto test = OpenDataset(spec, Split::kTest);
  EXPECT_EQ(info.memory_bytes, train->memory_bytes() + test->memory_bytes());
  EXPECT_NE(train->fingerprint(), test->fingerprint());
  std::vector<float> x(784);
  std::vector<int> count(10);
  double sum = 0;
  for (int64_t i = 0; i < train->size(); ++i) {
    ++count[train->Read(i, x, {})];
    sum = std::accumulate(x.begin(), x.end(), sum);
  }
  EXPECT_EQ(count, std::vector<int>(10, 6000));
  EXPECT_NEAR(sum / (60000.0 * 784), 0.2860, 5e-5);
}

}  // namespace
}  // namespace lumen::data
