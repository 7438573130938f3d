// SPDX-License-Identifier: Apache-2.0
// How fast sparse text is read, in MB per second of processor time: reading
// takes one core, and on a busy machine only part of it.
//   build/release/tests/sparse_text_bench [MB]
//   build/release/tests/sparse_text_bench FILE svmlight|xmc FEATURES CLASSES
#include <fmt/format.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "data/sparse_text.h"

namespace lumen::data {
namespace {

constexpr int kRepeats = 5;
constexpr int64_t kFeatures = 100000;
constexpr int64_t kClasses = 1000;
constexpr int64_t kEntries = 70;  // of a row

struct Sample {
  std::vector<int32_t> index;
  std::vector<float> value;
};

// Rows of ascending indices with the given values, as text; `rows` gets them.
std::string NewText(SparseTextFormat::Kind kind, size_t bytes, bool ones,
                    std::vector<Sample>* rows) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> gap(
      1, static_cast<int32_t>(2 * kFeatures / kEntries) - 1);
  std::uniform_int_distribution<int> ten_thousandth(1, 99999);
  std::string text;
  while (text.size() < bytes) {
    Sample row;
    text += std::to_string(random() % kClasses);
    // No label comes twice: each has a range of its own.
    for (int i = 1; kind == SparseTextFormat::kXmc && i < 5; ++i) {
      text += fmt::format(",{}", kClasses + random() % 100 + 100 * i);
    }
    for (int32_t i = gap(random); i < kFeatures; i += gap(random)) {
      const std::string value =
          ones ? "1" : fmt::format("{:.4f}", ten_thousandth(random) * 1e-4);
      row.index.push_back(i);
      row.value.push_back(std::strtof(value.c_str(), nullptr));
      text += fmt::format(" {}:{}", i, value);
    }
    text += '\n';
    rows->push_back(std::move(row));
  }
  if (kind == SparseTextFormat::kSvmlight) return text;
  return fmt::format("{} {} {}\n", rows->size(), kFeatures, 2 * kClasses) +
         text;
}

double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

void Measure(const std::string& name, const std::string& path,
             const SparseTextFormat& format) {
  std::vector<double> rates;
  int64_t entries = 0;
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  for (int i = 0; i < kRepeats; ++i) {
    const double began = ProcessorSeconds();
    entries = std::ssize(ReadSparseText(path, format).index);
    rates.push_back(bytes / 1e6 / (ProcessorSeconds() - began));
  }
  std::ranges::sort(rates);
  fmt::print(
      "{:24} {:7.1f} MB {:10} entries  median {:4.0f} MB/s  best {:4.0f}\n",
      name, bytes / 1e6, entries, rates[kRepeats / 2], rates.back());
}

void Made(SparseTextFormat::Kind kind, const std::string& name,
          double megabytes, bool ones) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            fmt::format("lumen-sparse-{}", getpid()))
                               .string();
  const bool xmc = kind == SparseTextFormat::kXmc;
  const SparseTextFormat format = {
      .kind = kind,
      .labels = xmc ? SparseTextFormat::kSeveral : SparseTextFormat::kOne,
      .features = kFeatures,
      .classes = 2 * kClasses};
  std::vector<Sample> rows;
  std::ofstream(path) << NewText(kind, static_cast<size_t>(megabytes * 1e6),
                                 ones, &rows);
  const SparseTable table = ReadSparseText(path, format);
  CHECK_EQ(table.samples(), std::ssize(rows));
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto first = static_cast<size_t>(table.row_start[r]);
    CHECK(std::ranges::equal(
        rows[r].index,
        std::span(table.index).subspan(first, rows[r].index.size())));
    CHECK(std::ranges::equal(
        rows[r].value,
        std::span(table.value).subspan(first, rows[r].value.size())));
  }
  Measure(name, path, format);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lumen::data

int main(int argc, char** argv) {
  using namespace lumen::data;
  if (argc == 5) {
    const bool xmc = std::string(argv[2]) == "xmc";
    Measure(
        argv[1], argv[1],
        {.kind = xmc ? SparseTextFormat::kXmc : SparseTextFormat::kSvmlight,
         .labels = xmc ? SparseTextFormat::kSeveral : SparseTextFormat::kOne,
         .features = std::atoll(argv[3]),
         .classes = std::atoll(argv[4]),
         .base = xmc ? 0 : 1});
    return 0;
  }
  const double megabytes = argc > 1 ? std::atof(argv[1]) : 64;
  using Format = SparseTextFormat;
  Made(Format::kSvmlight, "svmlight, values 1", megabytes, true);
  Made(Format::kSvmlight, "svmlight, values 0.1234", megabytes, false);
  Made(Format::kXmc, "xmc, values 1", megabytes, true);
  Made(Format::kXmc, "xmc, values 0.1234", megabytes, false);
  return 0;
}
