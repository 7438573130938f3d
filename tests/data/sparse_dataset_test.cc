// SPDX-License-Identifier: Apache-2.0
#include <boost/iostreams/copy.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <limits>
#include <sstream>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <class Compressor>
std::string Compressed(const std::string& text) {
  boost::iostreams::filtering_streambuf<boost::iostreams::input> stream;
  stream.push(Compressor());
  std::istringstream in(text);
  stream.push(in);
  std::ostringstream out;
  boost::iostreams::copy(stream, out);
  return out.str();
}

class SparseDatasetTest : public testing::Test {
 protected:
  Json Spec(const std::string& type, const std::string& more) const {
    return DataSpec("{\"type\": \"" + type + "\", \"root\": \"" +
                    folder_.path() + "\", \"train\": \"train.txt\", " + more +
                    "}");
  }
  std::unique_ptr<Dataset> Open(const std::string& type,
                                const std::string& content,
                                const std::string& more) const {
    Store(folder_.File("train.txt"), content);
    return OpenDataset(Spec(type, more), Split::kTrain);
  }
  std::unique_ptr<Dataset> Svmlight(const std::string& content,
                                    const std::string& more = "") const {
    return Open("svmlight", content, R"("features": 9, "classes": 3)" + more);
  }
  std::unique_ptr<Dataset> Xmc(const std::string& content,
                               const std::string& more = "") const {
    return Open("xmc", content, R"("features": 9, "classes": 5)" + more);
  }
  void ExpectSvmlightError(const std::string& content,
                           std::initializer_list<std::string> fragments,
                           const std::string& more = "") const {
    ExpectError<IoError>([&] { Svmlight(content, more); }, fragments);
  }
  void ExpectXmcError(const std::string& content,
                      std::initializer_list<std::string> fragments) const {
    ExpectError<IoError>([&] { Xmc(content); }, fragments);
  }
  TestFolder folder_;
};

TEST_F(SparseDatasetTest, SvmlightRowsStaySparse) {
  const auto data = Svmlight(
      "# made by hand\n"
      "2 1:0.5 4:-1e-3 9:+7 # the first\n"
      "\n"
      "0\n"
      "1\t3:1   5:2 \n");
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->kind(), SampleKind::kSparse);
  EXPECT_EQ(data->shape(), Shape{.channels = 9});
  EXPECT_EQ(data->classes(), 3);
  EXPECT_FALSE(data->has_label_sets());
  SparseSample sample = data->ReadSparse(0);
  EXPECT_THAT(sample.index, ElementsAre(0, 3, 8));
  EXPECT_THAT(sample.value, ElementsAre(0.5f, -1e-3f, 7.0f));
  EXPECT_EQ(sample.label, 2);
  sample = data->ReadSparse(1);
  EXPECT_THAT(sample.index, IsEmpty());
  EXPECT_EQ(sample.label, 0);
  sample = data->ReadSparse(2);
  EXPECT_THAT(sample.index, ElementsAre(2, 4));
  EXPECT_THAT(sample.value, ElementsAre(1.0f, 2.0f));
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(data->row_sizes().largest_row, 3);
  EXPECT_EQ(data->row_sizes().entries, 5);
  EXPECT_EQ(data->memory_bytes(), 3 * 8 + 5 * 8 + 3 * 4);
  std::vector<float> x(9);
  EXPECT_EQ(data->Read(2, x, {}), 1);
  EXPECT_THAT(x, ElementsAre(0, 0, 1, 0, 2, 0, 0, 0, 0));
}

TEST_F(SparseDatasetTest, XmcRowsHaveSetsOfLabels) {
  const auto data = Xmc("3 9 5\n4,0,2 0:1 8:0.25\n3 1:2\n1 \n");
  ASSERT_EQ(data->size(), 3);
  EXPECT_TRUE(data->has_label_sets());
  EXPECT_THAT(data->ReadSparse(0).labels, ElementsAre(0, 2, 4));
  EXPECT_THAT(data->ReadSparse(0).index, ElementsAre(0, 8));
  EXPECT_THAT(data->ReadSparse(1).labels, ElementsAre(3));
  EXPECT_THAT(data->ReadSparse(2).index, IsEmpty());
  EXPECT_EQ(data->row_sizes().largest_set, 3);
  EXPECT_EQ(data->row_sizes().labels, 5);
  EXPECT_THAT(data->notes(),
              ElementsAre(testing::HasSubstr("1 of 3 rows have no value")));
}

// Case D1.
TEST_F(SparseDatasetTest, RowsWithoutLabelsAreCountedAndReported) {
  const auto xmc = Xmc("3 9 5\n 2:1\n1 3:1\n \n");
  ASSERT_EQ(xmc->size(), 3);
  EXPECT_THAT(xmc->ReadSparse(0).labels, IsEmpty());
  EXPECT_THAT(xmc->ReadSparse(0).index, ElementsAre(2));
  EXPECT_THAT(xmc->ReadSparse(2).labels, IsEmpty());
  EXPECT_THAT(xmc->notes(),
              ElementsAre(testing::HasSubstr("2 of 3 rows have no label"),
                          testing::HasSubstr("1 of 3 rows have no value")));
  const auto several = Svmlight("0,2 1:1\n 2:1\n", R"(, "labels": "several")");
  ASSERT_EQ(several->size(), 2);
  EXPECT_THAT(several->ReadSparse(0).labels, ElementsAre(0, 2));
  EXPECT_THAT(several->ReadSparse(1).labels, IsEmpty());
  // A class label cannot be missing.
  ExpectSvmlightError("1 1:1\n 2:1\n", {"train.txt:2: found no label",
                                        "expected one", "labels=several"});
  ExpectSvmlightError("3:1 4:1\n", {"train.txt:1: found \"3:1\"",
                                    "without any starts with a blank"});
}

// Case D2.
TEST_F(SparseDatasetTest, EndsOfLinesDoNotMatter) {
  const auto expected = Svmlight("1 2:3\n2 4:5\n")->fingerprint();
  for (const char* text : {"1 2:3\r\n2 4:5\r\n", "1 2:3\n2 4:5",
                           "1 2:3\r\n2 4:5\r\n\r\n", "1 2:3\n2 4:5\n\n\n"}) {
    EXPECT_EQ(Svmlight(text)->fingerprint(), expected) << text;
  }
  const auto xmc = Xmc("2 9 5\n1 2:3\n2 4:5\n")->fingerprint();
  for (const char* text : {"2 9 5\r\n1 2:3\r\n2 4:5\r\n", "2 9 5\n1 2:3\n2 4:5",
                           "2 9 5\n1 2:3\n2 4:5\n\n"}) {
    EXPECT_EQ(Xmc(text)->fingerprint(), xmc) << text;
  }
}

// Case D3: nothing is guessed from a file.
TEST_F(SparseDatasetTest, BasesAreDeclaredAndChecked) {
  ExpectSvmlightError("1 1:1\n1 0:1\n",
                      {"train.txt:2: found index 0", "1 to 9", "data.base 1"});
  EXPECT_THAT(Svmlight("1 0:1\n", R"(, "base": 0)")->ReadSparse(0).index,
              ElementsAre(0));
  ExpectSvmlightError("1 9:1\n", {"found index 9; expected 0 to 8"},
                      R"(, "base": 0)");
  ExpectSvmlightError("3 1:1\n", {"train.txt:1: found label 3; expected 0 to 2",
                                  "data.label_base 0"});
  EXPECT_EQ(Svmlight("3 1:1\n", R"(, "label_base": 1)")->ReadSparse(0).label,
            2);
  ExpectSvmlightError("0 1:1\n", {"found label 0; expected 1 to 3"},
                      R"(, "label_base": 1)");
  ExpectXmcError("1 9 5\n5 1:1\n", {"train.txt:2: found label 5"});
  ExpectXmcError("1 9 5\n1 9:1\n", {"train.txt:2: found index 9"});
}

TEST_F(SparseDatasetTest, SignsAreTwoClasses) {
  const auto data = Open("svmlight", "+1 1:1\n-1 2:1\n",
                         R"("features": 9, "classes": 2, "labels": "sign")");
  EXPECT_EQ(data->ReadSparse(0).label, 1);
  EXPECT_EQ(data->ReadSparse(1).label, 0);
  ExpectError<SpecError>([&] { Svmlight("1 1:1\n", R"(, "labels": "sign")"); },
                         {"data.classes: 3; expected 2"});
}

// Case D4.
TEST_F(SparseDatasetTest, HugeIdsAllocateNothing) {
  ExpectSvmlightError("1 2147483647:1\n", {"train.txt:1: found index"});
  ExpectSvmlightError("1 99999999999999999999:1\n", {"train.txt:1: found"});
  ExpectSvmlightError("9223372036854775807 1:1\n",
                      {"train.txt:1: found label"});
  ExpectXmcError("9223372036854775807 9 5\n1 1:1\n",
                 {"ends after 1 rows; expected 9223372036854775807"});
  const auto data = Open("svmlight", "1 2147483647:1\n",
                         R"("features": 2147483647, "classes": 3)");
  EXPECT_EQ(data->memory_bytes(), 8 + 8 + 4);
}

// Case D6.
TEST_F(SparseDatasetTest, ValuesAreFiniteNumbers) {
  for (const char* value : {"nan", "inf", "-inf", "", "x", "1x", "0x1p3",
                            "1e39", "--1", "+-1", "1,5"}) {
    ExpectSvmlightError("0 1:1\n1 2:" + std::string(value) + " 3:1\n",
                        {"train.txt:2: found \"2:", "a finite number"});
  }
  const auto data = Svmlight("1 1:1e-60 2:1e38 3:-1E-45 4:.5 5:3.\n");
  EXPECT_THAT(data->ReadSparse(0).value,
              ElementsAre(0.0f, 1e38f, -1e-45f, 0.5f, 3.0f));
}

// Case D7.
TEST_F(SparseDatasetTest, TruncatedFilesAreNamed) {
  ExpectXmcError("3 9 5\n1 1:1\n2 2:1\n",
                 {"train.txt: ends after 2 rows; expected 3"});
  ExpectXmcError("1 9 5\n1 1:1\n2 2:1\n",
                 {"train.txt:3: found another row; expected the 1 rows"});
  ExpectXmcError("", {"train.txt: is empty"});
  ExpectXmcError("3 9\n", {"train.txt:1: found"});
  ExpectXmcError("3 9 5 1\n", {"train.txt:1: found"});
  ExpectXmcError("1 8 5\n1 1:1\n", {"found 8 features; expected 9"});
  ExpectXmcError("1 9 4\n1 1:1\n", {"found 4 labels; expected 5"});
  ExpectSvmlightError("", {"found no samples"});
  ExpectSvmlightError("1 1:1\n2 2:", {"train.txt:2: found \"2:\""});
  ExpectSvmlightError("1 1:1\n2 2", {"train.txt:2: found \"2\""});
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += std::to_string(i % 3) + " " + std::to_string(1 + i % 9) + ":" +
            std::to_string(i * i) + "\n";
  }
  const auto expected = Svmlight(text)->fingerprint();
  for (const std::string& packed :
       {Compressed<boost::iostreams::gzip_compressor>(text),
        Compressed<boost::iostreams::lzma_compressor>(text)}) {
    EXPECT_EQ(Svmlight(packed)->fingerprint(), expected);
    for (const size_t cut : {packed.size() / 2, packed.size() - 1,
                             packed.size() - 9, size_t{30}}) {
      ExpectSvmlightError(packed.substr(0, cut), {"train.txt:", "cut short"});
    }
    std::string damaged = packed;
    damaged[packed.size() / 2] ^= 0x10;
    EXPECT_THROW(Svmlight(damaged), IoError);
  }
}

TEST_F(SparseDatasetTest, RowsMayComeInAnyOrderButOnlyOnce) {
  EXPECT_THAT(Svmlight("1 3:3 1:1 2:2\n")->ReadSparse(0).value,
              ElementsAre(1, 2, 3));
  ExpectSvmlightError("1 3:3 1:1 3:2\n", {"train.txt:1: found index 3 twice"});
  ExpectSvmlightError("1 3:3 3:2\n", {"train.txt:1: found index 3 twice"});
  ExpectXmcError("1 9 5\n2,2 1:1\n", {"train.txt:2: found label 2 twice"});
}

TEST_F(SparseDatasetTest, WhatIsNotSupportedIsAnError) {
  ExpectSvmlightError("1 qid:3 1:1\n",
                      {"train.txt:1: found \"qid:3\"", "groups of queries"});
  ExpectSvmlightError("1,2 1:1\n", {"found 2 labels; expected one"});
  ExpectSvmlightError("1.5 1:1\n", {"found \"1.5\"", "an integer label"});
  ExpectSvmlightError("x 1:1\n", {"found \"x\"", "an integer label"});
  ExpectSvmlightError("1, 1:1\n", {"an integer label"});
  ExpectError<SpecError>(
      [&] {
        Svmlight("1 1:1\n", R"(, "normalize": {"mean": [0], "std": [1]})");
      },
      {"data.normalize", "sparse samples stay as they are"});
  ExpectError<SpecError>(
      [&] { Svmlight("1 1:1\n", R"(, "augment": [{"type": "flip"}])"); },
      {"data.augment"});
}

TEST_F(SparseDatasetTest, InfoMeasuresTheFilesOrBelievesTheSpec) {
  Store(folder_.File("train.txt"), "2 9 5\n0,1 1:1 2:1\n 3:1\n");
  const DatasetInfo info =
      GetDatasetInfo(Spec("xmc", R"("features": 9, "classes": 5)"));
  EXPECT_EQ(info.train_samples, 2);
  EXPECT_TRUE(info.has_label_sets);
  EXPECT_EQ(info.row_sizes.largest_row, 2);
  EXPECT_EQ(info.row_sizes.largest_set, 2);
  EXPECT_EQ(info.row_sizes.entries, 3);
  EXPECT_DOUBLE_EQ(info.density, 3.0 / 18);
  EXPECT_EQ(
      info.memory_bytes,
      OpenDataset(Spec("xmc", R"("features": 9, "classes": 5)"), Split::kTrain)
          ->memory_bytes());
  std::filesystem::remove(folder_.File("train.txt"));
  const std::string keys = R"("features": 9, "classes": 5)";
  ExpectError<SpecError>([&] { GetDatasetInfo(Spec("xmc", keys)); },
                         {"data.train", "data.samples.train"});
  const DatasetInfo declared =
      GetDatasetInfo(Spec("xmc", keys + R"(, "samples": {"train": 7})"));
  EXPECT_EQ(declared.train_samples, 7);
  EXPECT_EQ(declared.shape, Shape{.channels = 9});
  Store(folder_.File("train.txt"), "2 9 5\n0,1 1:1 2:1\n 3:1\n");
  ExpectError<SpecError>(
      [&] {
        OpenDataset(Spec("xmc", keys + R"(, "samples": {"train": 7})"),
                    Split::kTrain);
      },
      {"data.samples.train: 7; expected 2"});
}

// Counts of lines, and of rows without labels (case D1).
TEST(SparseFiles, RealDataSetsAreReadWhole) {
  struct Case {
    const char* spec;
    int64_t samples;
    int64_t entries;
    size_t notes;
  };
  const Case cases[] = {
      {R"("type": "xmc", "train": "xmc/bibtex-train.txt", "features": 1836,
          "classes": 159)",
       4880, 334250, 0},
      {R"("type": "xmc", "train": "xmc/delicious-train.txt", "features": 500,
          "classes": 983)",
       12920, 0, 1},
      {R"("type": "svmlight", "train": "libsvm/a9a.xz", "features": 123,
          "classes": 2)",
       32560, 0, 0},
      {R"("type": "svmlight", "train": "libsvm/agaricus.txt.train", "base": 0,
          "features": 127, "classes": 2)",
       6513, 0, 0},
  };
  if (!std::filesystem::exists(LUMEN_SHARED_DATA "/xmc")) {
    GTEST_SKIP() << "no " LUMEN_SHARED_DATA "/xmc";
  }
  for (const Case& test : cases) {
    SCOPED_TRACE(test.spec);
    const auto data = OpenDataset(
        DataSpec(std::string(R"({"root": ")" LUMEN_SHARED_DATA R"(", )") +
                 test.spec + "}"),
        Split::kTrain);
    EXPECT_EQ(data->size(), test.samples);
    if (test.entries > 0) {
      EXPECT_EQ(data->row_sizes().entries, test.entries);
    }
    EXPECT_EQ(data->notes().size(), test.notes);
  }
}

TEST_F(SparseDatasetTest, TheFingerprintFollowsTheContent) {
  const auto print = [&](const std::string& text) {
    return Svmlight(text, R"(, "labels": "several")")->fingerprint();
  };
  const auto base = print("1 2:3\n2 4:5\n");
  EXPECT_EQ(print("1  2:3.0 # same\n2 4:5\n"), base);
  for (const char* text : {"1 2:3\n1 4:5\n", "1 2:3\n2 4:6\n", "1 3:3\n2 4:5\n",
                           "1 2:3 4:5\n2\n", "1,2 2:3\n 4:5\n"}) {
    EXPECT_NE(print(text), base) << text;
  }
}

}  // namespace
}  // namespace lumen::data
