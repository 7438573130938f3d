// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/loader.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "lumen/core/error.h"
#include "lumen/core/parallel.h"

namespace lumen::data {
namespace {

constexpr int kBatches = 3;  // two ahead, one handed out
constexpr int64_t kBadSamplesNamed = 10;

// Sixteen samples are read side by side, then turned into lanes. Rows are not
// a power of two apart, or they would share a few cache sets.
int64_t RowStride(int64_t elements) {
  return (elements + kVectorLanes - 1) / kVectorLanes * kVectorLanes +
         kVectorLanes;
}

int64_t BlockRows(const LaneLayout& layout) {
  return std::min(layout.samples, kVectorLanes);
}

// Most entries, or labels, of a batch.
int64_t MostOf(int64_t largest, int64_t all, const LaneLayout& layout) {
  return std::min(largest * layout.samples, all);
}

// from[lane][element] to to[element][lane], `lanes` apart.
void Transpose(const float* from, int64_t stride, int64_t rows,
               int64_t elements, float* to, int64_t lanes) {
  if (rows == kVectorLanes) {
    for (int64_t e = 0; e < elements; ++e) {
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        to[e * lanes + l] = from[l * stride + e];
      }
    }
    return;
  }
  for (int64_t e = 0; e < elements; ++e) {
    for (int64_t l = 0; l < rows; ++l) {
      to[e * lanes + l] = from[l * stride + e];
    }
  }
}

// The strips of one sample side by side in lanes; `shape` is that of a strip.
void TransposeStrips(const float* from, const Shape& shape, int64_t strips,
                     float* to) {
  for (int64_t row = 0; row < shape.elements() / shape.width; ++row) {
    for (int64_t column = 0; column < shape.width; ++column) {
      for (int64_t s = 0; s < strips; ++s) {
        to[s] = from[s * shape.width + column];
      }
      to += kVectorLanes;
    }
    from += strips * shape.width;
  }
}

void Normalize(const Transform& transform, const Shape& shape, float* x) {
  if (transform.mean.empty()) return;
  const int64_t plane = shape.elements() / shape.channels;
  for (int64_t c = 0; c < shape.channels; ++c) {
    const float mean = transform.mean[c];
    const float deviation = transform.deviation[c];
    float* row = x + c * plane;
    for (int64_t i = 0; i < plane; ++i) row[i] = (row[i] - mean) / deviation;
  }
}

}  // namespace

struct Loader::Impl {
  Impl(const Dataset* dataset, const SampleOrder& order,
       const Transform& transform, const LaneLayout& layout,
       std::vector<int> shards, int64_t first_step, int64_t last_step)
      : dataset(dataset),
        order(order),
        transform(transform),
        layout(layout),
        shards(std::move(shards)),
        first_step(first_step),
        last_step(last_step) {}

  const Dataset* dataset;
  SampleOrder order;
  Transform transform;
  LaneLayout layout;
  std::vector<int> shards;
  int64_t first_step;
  int64_t last_step;

  std::array<Batch, kBatches> batches;
  Buffer<float> block;  // BlockRows samples side by side
  Buffer<float> target_block;
  double wait_seconds = 0;
  int handed_out = -1;  // index of the batch the caller holds

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::deque<int> free;
  std::deque<int> ready;
  bool done = false;
  std::exception_ptr error;

  std::atomic<bool> stop = false;
  std::atomic<int64_t> bad_samples = 0;
  std::thread thread;

  // nullopt for no sample (-1) and for one that is skipped.
  std::optional<int32_t> Read(int64_t sample, std::span<float> x,
                              std::span<float> targets);
  // False when stopped on the way.
  bool Fill(int64_t step, int shard, Batch* batch);
  bool FillDense(const std::vector<int64_t>& samples, Batch* batch);
  bool FillSparse(const std::vector<int64_t>& samples, Batch* batch);
  void Allocate(Batch* batch) const;
  void Run();
};

std::optional<int32_t> Loader::Impl::Read(int64_t sample, std::span<float> x,
                                          std::span<float> targets) {
  if (sample < 0) return std::nullopt;
  try {
    return dataset->Read(sample, x, targets);
  } catch (const IoError& error) {
    if (!transform.skip_bad_samples) throw;
    const int64_t count = ++bad_samples;
    if (count <= kBadSamplesNamed) {
      LOG(WARNING) << "skipped: " << error.what()
                   << (count == kBadSamplesNamed ? "; more are only counted"
                                                 : "");
    }
    return std::nullopt;
  }
}

bool Loader::Impl::Fill(int64_t step, int shard, Batch* batch) {
  batch->step = step;
  batch->epoch = step / order.steps_per_epoch();
  batch->shard = shard;
  batch->valid = 0;
  const std::vector<int64_t> samples = order.Samples(step, shard);
  return dataset->kind() == SampleKind::kSparse ? FillSparse(samples, batch)
                                                : FillDense(samples, batch);
}

bool Loader::Impl::FillSparse(const std::vector<int64_t>& samples,
                              Batch* batch) {
  const bool has_sets = dataset->has_label_sets();
  batch->row_start.assign(1, 0);
  batch->set_start.assign(has_sets ? 1 : 0, 0);
  batch->index.clear();
  batch->value.clear();
  batch->set_label.clear();
  for (int64_t i = 0; i < layout.samples; ++i) {
    if (i % kVectorLanes == 0 && stop.load(std::memory_order_relaxed)) {
      return false;
    }
    const int64_t number = samples[i];
    batch->labels[i] = -1;
    batch->samples[i] = 0;
    if (number >= 0) {
      const SparseSample sample = dataset->ReadSparse(number);
      batch->index.insert(batch->index.end(), sample.index.begin(),
                          sample.index.end());
      batch->value.insert(batch->value.end(), sample.value.begin(),
                          sample.value.end());
      batch->set_label.insert(batch->set_label.end(), sample.labels.begin(),
                              sample.labels.end());
      batch->labels[i] = sample.label;
      batch->samples[i] = static_cast<uint64_t>(number);
      ++batch->valid;
    }
    batch->row_start.push_back(std::ssize(batch->index));
    if (has_sets) batch->set_start.push_back(std::ssize(batch->set_label));
  }
  batch->rows = {batch->row_start, batch->index, batch->value};
  batch->label_sets = {batch->set_start, batch->set_label};
  return true;
}

bool Loader::Impl::FillDense(const std::vector<int64_t>& samples,
                             Batch* batch) {
  const Shape shape = dataset->shape();
  const int64_t elements = shape.elements();
  const int64_t stride = RowStride(elements);
  const int64_t targets = dataset->targets();
  const int64_t target_stride = RowStride(targets);
  for (int64_t first = 0; first < layout.samples; first += kVectorLanes) {
    if (stop.load(std::memory_order_relaxed)) return false;
    const int64_t rows = std::min(kVectorLanes, layout.samples - first);
    for (int64_t l = 0; l < rows; ++l) {
      const int64_t sample = samples[first + l];
      const std::span<float> row = block.span().subspan(l * stride, elements);
      const std::span<float> target_row =
          target_block.span().subspan(l * target_stride, targets);
      const std::optional<int32_t> label = Read(sample, row, target_row);
      if (!label) {
        std::ranges::fill(row, 0.0f);
        std::ranges::fill(target_row, 0.0f);
        batch->labels[first + l] = -1;
        batch->samples[first + l] = 0;
        continue;
      }
      batch->labels[first + l] = *label;
      batch->samples[first + l] = static_cast<uint64_t>(sample);
      ++batch->valid;
      for (const Augmentation& augmentation : transform.augmentations) {
        augmentation.Apply(static_cast<uint32_t>(batch->epoch),
                           batch->samples[first + l], row.data());
      }
      Normalize(transform, shape, row.data());
    }
    const int64_t tile = first / layout.lanes;
    const int64_t lane = first % layout.lanes;
    if (layout.strips > 1) {
      TransposeStrips(block.data(), batch->x.shape, layout.strips,
                      batch->x.data);
    } else {
      Transpose(block.data(), stride, rows, elements,
                batch->x.tile(tile) + lane, layout.lanes);
    }
    if (targets == 0) continue;
    Transpose(target_block.data(), target_stride, rows, targets,
              batch->targets.tile(tile) + lane, layout.lanes);
  }
  return true;
}

void Loader::Impl::Allocate(Batch* batch) const {
  Shape shape = dataset->shape();
  shape.width /= layout.strips;
  const int64_t targets = dataset->targets();
  batch->labels.assign(layout.samples, -1);
  batch->samples.assign(layout.samples, 0);
  batch->x = {nullptr, shape, layout};
  batch->targets = {nullptr, {.channels = targets}, layout};
  if (dataset->kind() == SampleKind::kSparse) {
    const RowSizes sizes = dataset->row_sizes();
    const int64_t entries = MostOf(sizes.largest_row, sizes.entries, layout);
    batch->index.reserve(entries);
    batch->value.reserve(entries);
    batch->set_label.reserve(MostOf(sizes.largest_set, sizes.labels, layout));
    return;
  }
  batch->storage = Buffer<float>(shape.elements() * layout.total_lanes());
  batch->x.data = batch->storage.data();
  batch->target_storage = Buffer<float>(targets * layout.total_lanes());
  batch->targets.data = batch->target_storage.data();
}

void Loader::Impl::Run() {
  try {
    CheckIeeeArithmetic();
    for (int64_t step = first_step; step < last_step; ++step) {
      for (const int shard : shards) {
        int slot = 0;
        {
          std::unique_lock<std::mutex> lock(mutex);
          changed.wait(lock, [this] { return stop || !free.empty(); });
          if (stop) return;
          slot = free.front();
          free.pop_front();
        }
        if (!Fill(step, shard, &batches[slot])) return;
        {
          const std::lock_guard<std::mutex> lock(mutex);
          ready.push_back(slot);
        }
        changed.notify_all();
      }
    }
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex);
    error = std::current_exception();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
  }
  changed.notify_all();
}

Loader::Loader(const Dataset* dataset, const SampleOrder& order,
               const Transform& transform, LaneLayout layout,
               std::vector<int> shards, int64_t first_step, int64_t last_step)
    : impl_(std::make_unique<Impl>(dataset, order, transform, layout,
                                   std::move(shards), first_step, last_step)) {
  CHECK_EQ(layout.samples, order.shard_batch());
  CHECK_EQ(order.size(), dataset->size());
  const Shape shape = dataset->shape();
  CHECK(transform.mean.empty() ||
        static_cast<int64_t>(transform.mean.size()) == shape.channels);
  if (impl_->shards.empty() || first_step >= last_step) {
    impl_->done = true;
    return;
  }
  if (dataset->kind() == SampleKind::kDense) {
    impl_->block =
        Buffer<float>(BlockRows(layout) * RowStride(shape.elements()));
    impl_->target_block =
        Buffer<float>(BlockRows(layout) * RowStride(dataset->targets()));
  }
  for (int i = 0; i < kBatches; ++i) {
    impl_->Allocate(&impl_->batches[i]);
    impl_->free.push_back(i);
  }
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

Loader::~Loader() {
  if (impl_->bad_samples > 0) {
    LOG(WARNING) << impl_->bad_samples << " bad samples skipped";
  }
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

const Batch* Loader::Next() {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  if (impl_->handed_out >= 0) {
    impl_->free.push_back(impl_->handed_out);
    impl_->handed_out = -1;
    impl_->changed.notify_all();
  }
  const auto available = [this] {
    return !impl_->ready.empty() || impl_->done;
  };
  if (!available()) {
    const auto start = std::chrono::steady_clock::now();
    impl_->changed.wait(lock, available);
    impl_->wait_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
  }
  if (impl_->ready.empty()) {
    if (impl_->error) std::rethrow_exception(impl_->error);
    return nullptr;
  }
  impl_->handed_out = impl_->ready.front();
  impl_->ready.pop_front();
  return &impl_->batches[impl_->handed_out];
}

double Loader::wait_seconds() const { return impl_->wait_seconds; }

int64_t Loader::bad_samples() const { return impl_->bad_samples; }

int64_t Loader::MemoryBytes(const Shape& shape, int64_t targets,
                            LaneLayout layout) {
  const auto floats = [&](int64_t elements) {
    return kBatches * elements * layout.total_lanes();
  };
  const int64_t rows =
      BlockRows(layout) * (RowStride(shape.elements()) + RowStride(targets));
  return (floats(shape.elements() / layout.strips) + floats(targets) + rows) *
         static_cast<int64_t>(sizeof(float));
}

int64_t Loader::SparseMemoryBytes(const RowSizes& sizes, LaneLayout layout) {
  constexpr int64_t kEntry = sizeof(int32_t) + sizeof(float);
  constexpr int64_t kStart = sizeof(int64_t);
  constexpr int64_t kLabel = sizeof(int32_t);
  return kBatches * (MostOf(sizes.largest_row, sizes.entries, layout) * kEntry +
                     MostOf(sizes.largest_set, sizes.labels, layout) * kLabel +
                     2 * (layout.samples + 1) * kStart);
}

}  // namespace lumen::data
