// SPDX-License-Identifier: Apache-2.0
#include "data/csv.h"

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"
#include "test_files.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

using Row = std::vector<std::string>;

class CsvTest : public testing::Test {
 protected:
  void Write(const std::string& text, const std::string& name = "a.csv") const {
    Store(folder_.File(name), text);
  }
  std::vector<Row> Records(const std::string& text,
                           char delimiter = ',') const {
    Write(text);
    CsvReader reader(folder_.File("a.csv"), delimiter);
    std::vector<Row> records;
    Row cells;
    while (reader.Next(&cells)) records.push_back(cells);
    return records;
  }
  // `keys` are the members after root and train.
  Json Spec(const std::string& keys) const {
    return DataSpec("{\"type\": \"csv\", \"root\": \"" + folder_.path() +
                    "\", \"train\": \"a.csv\", " + keys + "}");
  }
  std::unique_ptr<Dataset> Open(const std::string& keys = kClasses,
                                Split split = Split::kTrain) const {
    return OpenDataset(Spec(keys), split);
  }
  // The text is the training file; the error names it, then the fragments.
  void ExpectBad(const std::string& text, const std::string& keys,
                 const std::string& line,
                 std::initializer_list<std::string> fragments) const {
    Write(text);
    ExpectError<IoError>([&] { Open(keys); },
                         {folder_.File("a.csv") + ":" + line});
    ExpectError<IoError>([&] { Open(keys); }, fragments);
  }

  static constexpr char kClasses[] = "\"target\": \"y\", \"classes\": 2";
  static constexpr char kValue[] = "\"target\": \"y\", \"task\": \"value\"";
  TestFolder folder_;
};

std::vector<float> Inputs(const Dataset& data, int64_t index) {
  std::vector<float> x(data.shape().elements());
  std::vector<float> targets(data.targets());
  data.Read(index, x, targets);
  return x;
}

float Target(const Dataset& data, int64_t index) {
  std::vector<float> x(data.shape().elements());
  std::vector<float> targets(data.targets());
  const int32_t label = data.Read(index, x, targets);
  return targets.empty() ? static_cast<float>(label) : targets[0];
}

TEST_F(CsvTest, QuotesHoldDelimitersQuotesAndNewlines) {
  const std::vector<Row> expected = {{"a,b", "say \"x\"", "1\n2"},
                                     {"", "", ""}};
  EXPECT_EQ(Records("\"a,b\",\"say \"\"x\"\"\",\"1\n2\"\n\"\",,\n"), expected);
  EXPECT_EQ(Records("\"a,b\",\"say \"\"x\"\"\",\"1\r\n2\"\r\n,\"\",\r\n"),
            expected);
  EXPECT_EQ(Records(" \"a,b\" , \"say \"\"x\"\"\",\"1\n2\"\n,,"), expected);
}

TEST_F(CsvTest, BlanksAroundCellsAreLeftOut) {
  EXPECT_EQ(Records(" a b ,\tc,\" d \"\n"),
            (std::vector<Row>{{"a b", "c", " d "}}));
  EXPECT_EQ(Records("a\t\t b\n", '\t'), (std::vector<Row>{{"a", "", "b"}}));
}

TEST_F(CsvTest, WrongQuotesNameTheLine) {
  const std::string file = folder_.File("a.csv");
  ExpectError<IoError>([&] { Records("a\n\n\"b\nc\n"); },
                       {file + ":3", "column 1", "without end"});
  ExpectError<IoError>([&] { Records("a,b\"c\n"); },
                       {file + ":1", "column 2", "b\"c"});
  ExpectError<IoError>([&] { Records("a,\"b\nc\"d\n"); },
                       {file + ":2", "column 2", "after a closing quote"});
}

TEST_F(CsvTest, NumbersAreWholeCells) {
  EXPECT_EQ(ParseNumber("-1.5e3"), -1500);
  EXPECT_EQ(ParseNumber("+2"), 2);
  EXPECT_EQ(ParseNumber(".5"), 0.5);
  for (const char* text : {"", "+", "+-1", "1 ", "1,5", "0x10", "1e999", "x"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
}

TEST_F(CsvTest, RowsBecomeSamples) {
  Write("id,a,y,b\n7,0.5,1,-2\n8,1e2,0,3\n");
  const auto data =
      Open("\"target\": \"y\", \"classes\": 2, \"ignore\": [\"id\"]");
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->shape(), (Shape{.channels = 2}));
  EXPECT_EQ(data->classes(), 2);
  EXPECT_EQ(data->targets(), 0);
  EXPECT_EQ(Inputs(*data, 0), (std::vector<float>{0.5f, -2}));
  EXPECT_EQ(Inputs(*data, 1), (std::vector<float>{100, 3}));
  EXPECT_EQ(Target(*data, 0), 1);
  EXPECT_EQ(Target(*data, 1), 0);
  EXPECT_EQ(data->memory_bytes(), 2 * (2 + 1) * 4);
  EXPECT_TRUE(data->notes().empty());
  // Only used columns matter.
  const uint64_t fingerprint = data->fingerprint();
  Write("id,a,y,b\nx,0.5,1,-2\n,1e2,0,3\n");
  EXPECT_EQ(Open("\"target\": \"y\", \"classes\": 2, \"ignore\": [\"1\"]")
                ->fingerprint(),
            fingerprint);
}

TEST_F(CsvTest, TargetsMayBeRealNumbers) {
  Write("a,y\n1,0.25\n2,-3\n");
  const auto data = Open(kValue);
  EXPECT_EQ(data->targets(), 1);
  EXPECT_EQ(data->classes(), 1);
  EXPECT_EQ(Target(*data, 0), 0.25f);
  EXPECT_EQ(Target(*data, 1), -3);
  EXPECT_EQ(GetDatasetInfo(Spec(kValue)).targets, 1);
}

TEST_F(CsvTest, WithoutAHeaderColumnsHaveNumbers) {
  Write("1;2;0\n3;4;1\n");
  const auto data = Open(
      "\"target\": \"3\", \"classes\": 2, \"header\": false, \"delimiter\": "
      "\";\"");
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(Inputs(*data, 0), (std::vector<float>{1, 2}));
}

TEST_F(CsvTest, TabsByExtension) {
  Write("a\ty\n1\t1\n", "b.tsv");
  const Json spec =
      DataSpec("{\"type\": \"csv\", \"train\": \"" + folder_.File("b.tsv") +
               "\", \"target\": \"y\", \"classes\": 2}");
  EXPECT_EQ(OpenDataset(spec, Split::kTrain)->size(), 1);
  EXPECT_EQ(OpenDataset(spec, Split::kTest), nullptr);
}

TEST_F(CsvTest, CategoriesBecomeOneInputPerValue) {
  Write("c,a,s,y\nred,1,L,0\nblue,2,\"S,M\",1\n");
  Write("s,a\n", "other.csv");
  Write("c,a,s,y\nblue,3,XL,1\n", "t.csv");
  const std::string keys =
      std::string(kClasses) +
      ", \"test\": \"t.csv\", \"categorical\": {\"s\": null, \"c\": [\"red\", "
      "\"green\", \"blue\"]}";
  const auto data = Open(keys);
  EXPECT_EQ(data->shape(), (Shape{.channels = 6}));
  EXPECT_EQ(Inputs(*data, 0), (std::vector<float>{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(Inputs(*data, 1), (std::vector<float>{0, 0, 1, 2, 0, 1}));
  ExpectError<IoError>([&] { Open(keys, Split::kTest); },
                       {folder_.File("t.csv") + ":2", "column 3 \"s\"",
                        "found \"XL\"", "one of the 2 values"});
  const auto test = Open(keys + ", \"unknown\": \"zero\"", Split::kTest);
  EXPECT_EQ(Inputs(*test, 0), (std::vector<float>{0, 0, 1, 3, 0, 0}));
}

TEST_F(CsvTest, ClassesMayHaveNames) {
  Write("a,y\n1,dog\n2,cat\n");
  const std::string keys =
      std::string(kClasses) + ", \"class_names\": [\"cat\", \"dog\"]";
  EXPECT_EQ(Target(*Open(keys), 0), 1);
  EXPECT_EQ(Target(*Open(keys), 1), 0);
  ExpectBad("a,y\n1,dog\n2,cow\n", keys, "3",
            {"column 2 \"y\"", "found \"cow\"", "data.class_names"});
}

TEST_F(CsvTest, D1RowsWithoutTargetAreLeftOutAndReported) {
  Write("a,y\n1,1\n2,\n3,0\n4,\n");
  for (const char* keys : {kClasses, kValue}) {
    const auto data = Open(keys);
    EXPECT_EQ(data->size(), 2);
    EXPECT_EQ(Inputs(*data, 1), std::vector<float>{3});
    EXPECT_EQ(data->notes(),
              std::vector<std::string>{folder_.File("a.csv") +
                                       ": 2 of 4 rows left out: no target, "
                                       "first in line 3"});
  }
}

TEST_F(CsvTest, D2LineEndsDoNotMatter) {
  Write("a,y\n1,1\n2,0\n");
  const uint64_t expected = Open()->fingerprint();
  for (const char* text :
       {"a,y\r\n1,1\r\n2,0\r\n", "a,y\n1,1\n2,0", "a,y\n1,1\n2,0\n\n\n",
        "\xef\xbb\xbf"
        "a,y\r\n1,1\r\n\r\n2,0"}) {
    Write(text);
    EXPECT_EQ(Open()->fingerprint(), expected) << text;
  }
}

TEST_F(CsvTest, D3TheBaseOfLabelsIsStated) {
  const std::string one = std::string(kClasses) + ", \"base\": 1";
  Write("a,y\n1,1\n2,2\n");
  EXPECT_EQ(Target(*Open(one), 0), 0);
  EXPECT_EQ(Target(*Open(one), 1), 1);
  ExpectBad("a,y\n1,1\n2,2\n", kClasses, "3",
            {"found \"2\"", "an integer from 0 to 1", "data.base is 0"});
  ExpectBad("a,y\n1,0\n", one, "2", {"found \"0\"", "from 1 to 2"});
}

TEST_F(CsvTest, D4HugeLabelsAreErrors) {
  for (const char* label : {"1e18", "99999999999999999999", "-1", "0.5"}) {
    ExpectBad(std::string("a,y\n1,") + label + "\n", kClasses, "2",
              {std::string("found \"") + label, "an integer from 0 to 1"});
  }
}

TEST_F(CsvTest, D5ShortRowsAndEmptyCellsNameLineAndColumn) {
  ExpectBad("a,b,y\n1,2,0\n1,0\n", kClasses, "3",
            {"found 2 columns", "expected 3"});
  ExpectBad("a,b,y\n1,2,0,1\n", kClasses, "2",
            {"found 4 columns", "expected 3"});
  ExpectBad("a,b,y\n1,,0\n", kClasses, "2",
            {"column 2 \"b\"", "found \"\"", "expected a number"});
}

TEST_F(CsvTest, D6MissingAndNonFiniteNumbersAreErrorsOrLeftOut) {
  for (const char* cell : {"", "nan", "NaN", "inf", "-INF", "NA"}) {
    const std::string text =
        std::string("a,b,y\n1,2,0\n3,") + cell + ",1\n5,6,1\n";
    ExpectBad(text, kClasses, "3",
              {"column 2 \"b\"", std::string("found \"") + cell + "\"",
               "data.missing"});
    const auto data = Open(std::string(kClasses) + ", \"missing\": \"drop\"");
    EXPECT_EQ(data->size(), 2);
    EXPECT_EQ(Inputs(*data, 1), (std::vector<float>{5, 6}));
    ASSERT_EQ(data->notes().size(), 1u);
    EXPECT_THAT(data->notes()[0], testing::HasSubstr("1 of 3 rows left out"));
  }
  // Rows without a group would all be of one.
  const std::string group = std::string(kClasses) + ", \"group\": \"g\"";
  ExpectBad("a,g,y\n1,x,1\n2,,0\n", group, "3",
            {"column 2 \"g\"", "expected a group", "data.missing"});
  EXPECT_EQ(Open(group + ", \"missing\": \"drop\"")->size(), 1);
  // A typing error is never a missing value.
  const std::string drop = std::string(kClasses) + ", \"missing\": \"drop\"";
  ExpectBad("a,y\n1O,1\n", drop, "2", {"column 1 \"a\"", "found \"1O\""});
  ExpectBad("a,y\n1e300,1\n", drop, "2", {"float32"});
  ExpectBad("a,y\n1,nan\n", kValue, "2", {"column 2 \"y\"", "finite"});
}

TEST_F(CsvTest, D8AFileWithoutRowsIsAnError) {
  Write("a,y\n");
  ExpectError<IoError>([&] { Open(); }, {"found no samples"});
  Write("");
  ExpectError<IoError>([&] { Open(); }, {"found an empty file"});
}

TEST_F(CsvTest, WrongKeysNameLineAndColumns) {
  Write("a,b,y\n1,2,0\n");
  const auto bad = [&](const std::string& keys,
                       std::initializer_list<std::string> fragments) {
    ExpectError<SpecError>([&] { Open(keys); }, fragments);
  };
  bad("\"target\": \"z\", \"classes\": 2",
      {"test.json:1: data.target", "\"z\"", "a, b, y"});
  bad("\"target\": \"4\", \"classes\": 2", {"1 to 3"});
  bad("\"target\": \"y\"", {"data.classes"});
  bad(std::string(kValue) + ", \"classes\": 2", {"data.classes: 2"});
  bad(std::string(kClasses) + ", \"ignore\": [\"y\"]", {"data.ignore"});
  bad(std::string(kClasses) + ", \"categorical\": {\"y\": null}",
      {"data.categorical.y"});
  bad(std::string(kClasses) + ", \"categorical\": {\"a\": 3}",
      {"data.categorical.a", "list of texts"});
  bad(std::string(kClasses) + ", \"class_names\": [\"x\"]",
      {"data.class_names: 1 names", "expected 2"});
  bad(std::string(kClasses) + ", \"class_names\": [\"x\", \"x\"]", {"twice"});
  bad(std::string(kClasses) + ", \"delimiter\": \"ab\"", {"data.delimiter"});
  bad(std::string(kClasses) + ", \"samples\": {\"train\": 2}",
      {"data.samples.train: 2", "expected 1"});
  Write("a,a,y\n1,2,0\n");
  ExpectError<IoError>([&] { Open(); }, {":1: column 2", "\"a\" again"});
  Write("y\n1\n");
  ExpectError<IoError>([&] { Open(); }, {"at least one input"});
}

TEST_F(CsvTest, SplitsHaveTheSameColumns) {
  Write("a,b,y\n1,2,0\n");
  Write("b,a,y\n1,2,0\n", "t.csv");
  ExpectError<IoError>(
      [&] {
        Open(std::string(kClasses) + ", \"test\": \"t.csv\"", Split::kTest);
      },
      {folder_.File("t.csv") + ":1", "other columns", folder_.File("a.csv")});
}

TEST_F(CsvTest, InfoAgreesWithTheDataSet) {
  Write("a,b,y\n1,2,0\n1,2,\n3,4,1\n");
  const DatasetInfo info = GetDatasetInfo(Spec(kClasses));
  const auto data = Open();
  EXPECT_EQ(info.train_samples, data->size());
  EXPECT_EQ(info.shape, data->shape());
  EXPECT_EQ(info.memory_bytes, data->memory_bytes());
  std::filesystem::remove(folder_.File("a.csv"));
  ExpectError<SpecError>([&] { GetDatasetInfo(Spec(kClasses)); },
                         {"data.train", "data.samples.train"});
  const std::string declared =
      std::string(kClasses) + ", \"shape\": [2], \"samples\": {\"train\": 2}";
  EXPECT_EQ(GetDatasetInfo(Spec(declared)).memory_bytes, info.memory_bytes);
  ExpectError<IoError>([&] { Open(); }, {"data.train", "No such file"});
}

}  // namespace
}  // namespace lumen::data
