// SPDX-License-Identifier: Apache-2.0
// Sparse layers against dense ones of oneDNN, shape by shape and pass by pass.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench.h"
#include "bench_layer.h"
#include "lumen/core/file.h"
#include "lumen/sparse/onednn.h"
#include "output.h"

namespace lumen::cli {
namespace {

constexpr double kDensities[] = {0.2, 0.1, 0.05, 0.01};
constexpr int kRepeats = 15;

// Logarithms of ratios, for geometric means.
struct Mean {
  double sum = 0;
  int count = 0;
};
using Means = std::map<std::pair<std::string, double>, Mean>;

double All(const std::array<PassTimes, 3>& times) {
  double dense = 0, sparse = 0;
  for (const PassTimes& pass : times) {
    dense += pass.dense_seconds;
    sparse += pass.sparse_seconds;
  }
  return dense / sparse;
}

void SayMeans(const Means& means) {
  Say("geometric means of forward + dX + dW\n");
  std::string kind;
  for (const auto& [key, mean] : means) {
    if (key.first != kind) {
      Say(fmt::format("{}{:<12}", kind.empty() ? "" : "\n", key.first));
    }
    kind = key.first;
    Say(fmt::format(" {:>4.3g} %: {:>5.2f}x", 100 * key.second,
                    std::exp(mean.sum / mean.count)));
  }
  Say("\n");
}

}  // namespace

int RunBenchKernels(const CommandLine& line) {
  const std::string path = line.arguments.size() > 1 ? line.arguments[1] : "";
  const std::vector<BenchShape> shapes =
      path.empty() ? ParseBenchShapes(kBenchShapes, "shapes")
                   : ParseBenchShapes(ReadFile(path), path);
  const int threads = std::max(1, line.flags.threads);
  const sparse::Isa isa = sparse::ParseIsa(line.flags.isa);
  const sparse::Compute compute{&sparse::Kernels(isa), Parallel(threads)};
  SetLibraryThreads(threads);
  sparse::LimitOneDnn(isa);
  const double peak = PeakFlopsPerSecond(compute);
  Say(
      fmt::format("{} kernels against {} dense, {} thread{}, peak {:.0f} "
                  "GFLOP/s; dense time / ours\n",
                  sparse::IsaName(isa), sparse::OneDnnVersion(), threads,
                  threads > 1 ? "s" : "", 1e-9 * peak));
  Say(fmt::format("{:<10} {:<24} {:>7} {:>8} {:>7} {:>7} {:>7}   {}\n", "kind",
                  "shape", "density", "forward", "dX", "dW", "all",
                  "GFLOP/s of the three"));
  Json results = Json::Array();
  Means means;
  for (const BenchShape& shape : shapes) {
    LayerBench bench(shape, compute);
    for (double density : kDensities) {
      bench.Prune(density);
      bench.Verify();
      const auto times = bench.Time(kRepeats);
      std::string ratios, speeds;
      for (BenchPass pass : kBenchPasses) {
        const PassTimes& t = times[static_cast<size_t>(pass)];
        const double gflops = 1e-9 * bench.flops() / t.sparse_seconds;
        const double ratio = t.dense_seconds / t.sparse_seconds;
        ratios += fmt::format(" {:>6.2f}x", ratio);
        speeds += fmt::format(" {:>4.0f}", gflops);
        Json result = Json::Object();
        result.Set("kind", shape.Kind());
        result.Set("shape", shape.Text());
        result.Set("density", density);
        result.Set("pass", std::string(BenchPassName(pass)));
        result.Set("isa", std::string(sparse::IsaName(isa)));
        result.Set("threads", threads);
        result.Set("dense_ms", 1e3 * t.dense_seconds);
        result.Set("sparse_ms", 1e3 * t.sparse_seconds);
        result.Set("ratio", ratio);
        result.Set("gflops", gflops);
        result.Set("peak_fraction", 1e9 * gflops / peak);
        results.Append(result);
      }
      Mean& mean = means[{shape.Kind(), 1 - density}];
      mean.sum += std::log(All(times));
      ++mean.count;
      Say(fmt::format("{:<10} {:<24} {:>5.3g} % {} {:>6.2f}x  {}\n",
                      shape.Kind(), shape.Text(), 100 * density, ratios,
                      All(times), speeds));
    }
  }
  SayMeans(means);
  WriteBenchResults(line, results);
  return 0;
}

}  // namespace lumen::cli
