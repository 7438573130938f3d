// SPDX-License-Identifier: Apache-2.0
// How fast one thread turns samples into batches. Checks the first batch before
// it times.
//
//   build/release/tests/data_loader_bench
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "lumen/data/loader.h"
#include "test_specs.h"

namespace lumen::data {
namespace {

void Check(const Batch& batch, const Dataset& dataset, const Transform& t) {
  const LaneLayout& layout = batch.x.layout;
  const int64_t elements = dataset.shape().elements();
  const int64_t plane = elements / dataset.shape().channels;
  std::vector<float> x(elements);
  for (int64_t i = 0; i < layout.samples; ++i) {
    dataset.Read(static_cast<int64_t>(batch.samples[i]), x, {});
    for (int64_t e = 0; e < elements; ++e) {
      const float expected =
          t.mean.empty() ? x[e]
                         : (x[e] - t.mean[e / plane]) / t.deviation[e / plane];
      const float found =
          batch.x.tile(i / layout.lanes)[e * layout.lanes + i % layout.lanes];
      if (found != expected) {
        std::fprintf(stderr, "sample %ld element %ld differs\n", i, e);
        std::exit(1);
      }
    }
  }
}

void Run(const char* name, const std::string& text, int64_t batch) {
  const Json spec = DataSpec(text);
  const auto start = std::chrono::steady_clock::now();
  const auto dataset = OpenDataset(spec, Split::kTrain);
  const auto opened = std::chrono::steady_clock::now();
  const Transform transform = NewTransform(spec, dataset->shape());
  const SampleOrder order(dataset->size(), batch, 1, 1, DataOrder(spec),
                          Tail::kDrop);
  const int64_t steps = order.steps_per_epoch();
  Loader loader(dataset.get(), order, transform, LaneLayout::For(batch), {0}, 0,
                steps + 1);
  Check(*loader.Next(), *dataset, transform);
  const auto begin = std::chrono::steady_clock::now();
  while (loader.Next() != nullptr) {
  }
  const auto end = std::chrono::steady_clock::now();
  const auto seconds = [](auto duration) {
    return std::chrono::duration<double>(duration).count();
  };
  const double rate = static_cast<double>(steps * batch) / seconds(end - begin);
  std::printf("%-28s open %6.3f s  %9.0f samples/s  %7.1f MB/s of floats\n",
              name, seconds(opened - start), rate,
              rate * static_cast<double>(dataset->shape().elements()) * 4e-6);
}

}  // namespace
}  // namespace lumen::data

int main() {
  using lumen::data::Run;
  const std::string fashion = "/usr/share/datasets/fashion-mnist";
  if (std::filesystem::exists(fashion)) {
    Run("idx 1x28x28",
        "{\"type\": \"idx\", \"root\": \"" + fashion +
            "\", \"train\": {\"x\": \"train-images-idx3-ubyte.gz\", \"y\": "
            "\"train-labels-idx1-ubyte.gz\"}, \"classes\": 10, \"normalize\": "
            "{\"mean\": [0.286], \"std\": [0.353]}}",
        256);
  }
  Run("synthetic 1x28x28",
      "{\"type\": \"synthetic\", \"shape\": [1, 28, 28], \"samples\": "
      "{\"train\": 60000}, \"classes\": 10}",
      256);
  Run("synthetic 3x224x224",
      "{\"type\": \"synthetic\", \"shape\": [3, 224, 224], \"samples\": "
      "{\"train\": 320}, \"classes\": 10}",
      32);
  Run("synthetic 20000",
      "{\"type\": \"synthetic\", \"shape\": [20000], \"samples\": "
      "{\"train\": 2560}, \"classes\": 10}",
      128);
}
