// SPDX-License-Identifier: Apache-2.0
// Readers of text: tables, sparse rows, and what compressed them.
#include <boost/iostreams/filter/bzip2.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_stream.hpp>

#include "fuzz/fuzz.h"

namespace lumen::data {
namespace {

namespace io = boost::iostreams;

// What real damage is made of.
const std::vector<std::string> kPieces = {" ",
                                          ",",
                                          ",,",
                                          "\"",
                                          "\"\"",
                                          "\n",
                                          "\r\n",
                                          "\t",
                                          "-",
                                          "+",
                                          ".",
                                          "e9",
                                          "nan",
                                          "inf",
                                          "NA",
                                          "1e999",
                                          "1e-60",
                                          "999999999999",
                                          ";",
                                          "#",
                                          ":",
                                          "1:1",
                                          "2:2 ",
                                          "1,2,0 ",
                                          "qid:1",
                                          "\xff",
                                          "\xef\xbb\xbf",
                                          " 1 ",
                                          std::string(1, '\0')};

const std::string kTable =
    "id,\"a\",b,c,y\r\n1,0.5,-2,red,1\n2,1e3,4,\"blue, dark\",0\n"
    "3,2,4,\"gr\"\"ey\n\",1\n4,.5,3,red,\n5,6,7,red,1";

const std::string kRows = "1 1:1 5:0.5 9:-2\n# a\n2 3:1e3\n0 2:1\r\n1\n";

template <class Compressor>
std::string Compressed(const std::string& text) {
  std::string bytes;
  io::filtering_ostream stream;
  stream.push(Compressor());
  stream.push(io::back_inserter(bytes));
  stream << text;
  stream.reset();
  return bytes;
}

std::string TableSpec(const std::string& keys) {
  return R"({"type": "csv", "root": "FOLDER", "train": "a.csv", )" + keys + "}";
}

std::string RowsSpec(const std::string& type, const std::string& labels) {
  return R"({"type": ")" + type + R"(", "root": "FOLDER", "train": "t", )" +
         R"("features": 9, "classes": 3, "labels": ")" + labels + "\"}";
}

TEST(Fuzz, CsvIsReadOrRefused) {
  FuzzDatasets({{TableSpec(R"("target": "y", "classes": 2, "ignore": ["id"],
                     "categorical": {"c": null}, "missing": "drop")"),
                 {{"a.csv", kTable}}},
                {TableSpec(R"("target": "y", "classes": 2, "group": "id",
                     "categorical": {"c": ["red"]}, "unknown": "zero")"),
                 {{"a.csv", kTable}}},
                {TableSpec(R"("target": "1", "task": "value", "header": false,
                     "delimiter": ";", "missing": "drop")"),
                 {{"a.csv", "1;2;3\n4;NA;6\n7;8;9\n"}}}},
               2000, kPieces);
}

TEST(Fuzz, SvmlightIsReadOrRefused) {
  FuzzDatasets({{RowsSpec("svmlight", "one"), {{"t", kRows}}},
                {RowsSpec("svmlight", "several"), {{"t", kRows}}}},
               2000, kPieces);
}

TEST(Fuzz, XmcIsReadOrRefused) {
  FuzzDatasets({{RowsSpec("xmc", "several"),
                 {{"t", "4 9 3\n0,2 0:1 8:.5\n 3:1\n1 2:2 4:1\n2 \n"}}}},
               2000, kPieces);
}

TEST(Fuzz, CompressedTextIsReadOrRefused) {
  std::vector<FuzzCase> cases;
  for (const std::string& bytes : {Compressed<io::gzip_compressor>(kRows),
                                   Compressed<io::bzip2_compressor>(kRows),
                                   Compressed<io::lzma_compressor>(kRows),
                                   Compressed<io::zstd_compressor>(kRows)}) {
    cases.push_back({RowsSpec("svmlight", "one"), {{"t", bytes}}});
  }
  FuzzDatasets(cases, 1000);
}

}  // namespace
}  // namespace lumen::data
