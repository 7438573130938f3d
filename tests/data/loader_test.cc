// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "lumen/core/error.h"
#include "test_files.h"

namespace lumen::data {
namespace {

// Element e of sample i is i + e / 1024, its label i % 10 or its target t
// -i - t / 1024.
class Ramp : public Dataset {
 public:
  Ramp(int64_t size, Shape shape, int64_t targets = 0)
      : size_(size), shape_(shape), targets_(targets) {}
  int64_t size() const override { return size_; }
  Shape shape() const override { return shape_; }
  int64_t classes() const override { return 10; }
  int64_t targets() const override { return targets_; }
  int32_t Read(int64_t index, std::span<float> x,
               std::span<float> targets) const override {
    if (index == bad_sample) throw IoError("sample 17 is bad");
    std::this_thread::sleep_for(delay);
    ++reads;
    for (size_t e = 0; e < x.size(); ++e) x[e] = Value(index, e);
    EXPECT_EQ(static_cast<int64_t>(targets.size()), targets_);
    for (size_t t = 0; t < targets.size(); ++t) targets[t] = -Value(index, t);
    if (targets_ > 0) return 0;
    return static_cast<int32_t>(index % 10);
  }
  uint64_t fingerprint() const override { return 0; }
  int64_t memory_bytes() const override { return 0; }

  static float Value(int64_t index, int64_t element) {
    return static_cast<float>(index) + static_cast<float>(element) * 0x1p-10f;
  }

  int64_t bad_sample = -1;
  std::chrono::microseconds delay{0};
  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t size_;
  Shape shape_;
  int64_t targets_;
};

TEST(SampleOrder, AnEpochVisitsEachSampleAtMostOnce) {
  for (const int64_t size : {1, 10, 64, 1000, 4097}) {
    const SampleOrder order(size, 32, 4, 7, Order::kShuffle, Tail::kKeep);
    EXPECT_EQ(order.steps_per_epoch(), (size + 31) / 32);
    std::set<int64_t> seen;
    int64_t missing = 0;
    for (int64_t step = 0; step < order.steps_per_epoch(); ++step) {
      for (int shard = 0; shard < 4; ++shard) {
        for (const int64_t sample : order.Samples(step, shard)) {
          if (sample < 0) {
            ++missing;
          } else {
            EXPECT_LT(sample, size);
            EXPECT_TRUE(seen.insert(sample).second);
          }
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
    EXPECT_EQ(missing, order.steps_per_epoch() * 32 - size);
  }
}

TEST(SampleOrder, TrainingDropsTheTail) {
  const SampleOrder order(100, 32, 4, 7, Order::kShuffle, Tail::kDrop);
  EXPECT_EQ(order.steps_per_epoch(), 3);
  for (int64_t step = 0; step < 9; ++step) {
    for (int shard = 0; shard < 4; ++shard) {
      const std::vector<int64_t> samples = order.Samples(step, shard);
      EXPECT_EQ(std::ranges::count(samples, -1), 0);
    }
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  const SampleOrder a(1000, 100, 1, 7, Order::kShuffle, Tail::kDrop);
  const SampleOrder b(1000, 100, 1, 8, Order::kShuffle, Tail::kDrop);
  EXPECT_NE(a.Samples(0, 0), a.Samples(10, 0));
  EXPECT_NE(a.Samples(0, 0), b.Samples(0, 0));
}

TEST(SampleOrder, TheBatchDoesNotDependOnShards) {
  const SampleOrder whole(1000, 48, 1, 7, Order::kShuffle, Tail::kKeep);
  for (const int shards : {2, 3, 4, 8, 48}) {
    const SampleOrder cut(1000, 48, shards, 7, Order::kShuffle, Tail::kKeep);
    for (int64_t step = 0; step < 50; ++step) {
      std::vector<int64_t> together;
      for (int shard = 0; shard < shards; ++shard) {
        const std::vector<int64_t> part = cut.Samples(step, shard);
        EXPECT_EQ(part.size(), 48u / shards);
        together.insert(together.end(), part.begin(), part.end());
      }
      EXPECT_EQ(together, whole.Samples(step, 0));
    }
  }
}

TEST(SampleOrder, FileOrderCountsUp) {
  const SampleOrder order(10, 8, 2, 7, Order::kFile, Tail::kKeep);
  EXPECT_EQ(order.Samples(0, 1), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(order.Samples(1, 0), (std::vector<int64_t>{8, 9, -1, -1}));
  EXPECT_EQ(order.Samples(1, 1), (std::vector<int64_t>{-1, -1, -1, -1}));
  EXPECT_EQ(order.Samples(2, 0), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(SampleOrder, ADataSetSmallerThanTheBatchIsOneMaskedStep) {
  for (const Tail tail : {Tail::kDrop, Tail::kKeep}) {
    const SampleOrder order(3, 8, 4, 7, Order::kShuffle, tail);
    EXPECT_EQ(order.steps_per_epoch(), 1);
    for (int64_t step = 0; step < 5; ++step) {
      std::multiset<int64_t> seen;
      for (int shard = 0; shard < 4; ++shard) {
        for (const int64_t sample : order.Samples(step, shard)) {
          seen.insert(sample);
        }
      }
      EXPECT_EQ(seen, (std::multiset<int64_t>{-1, -1, -1, -1, -1, 0, 1, 2}));
    }
  }
}

TEST(SampleOrder, NoSamplesAreOneEmptyStep) {
  const SampleOrder order(0, 4, 2, 7, Order::kShuffle, Tail::kDrop);
  EXPECT_EQ(order.steps_per_epoch(), 1);
  EXPECT_EQ(order.Samples(3, 1), (std::vector<int64_t>{-1, -1}));
}

// Positions beyond 2^32 need no memory: only the order is asked.
TEST(SampleOrder, PositionsBeyond32BitsStayInRange) {
  const int64_t size = (int64_t{1} << 40) + 3;
  const SampleOrder order(size, 4, 1, 7, Order::kFile, Tail::kKeep);
  EXPECT_EQ(order.Samples(size / 4, 0),
            (std::vector<int64_t>{size - 3, size - 2, size - 1, -1}));
  const SampleOrder shuffled(size, 4, 1, 7, Order::kShuffle, Tail::kKeep);
  for (const int64_t sample : shuffled.Samples(size / 4 - 1, 0)) {
    EXPECT_GE(sample, 0);
    EXPECT_LT(sample, size);
  }
}

float Expected(const Ramp& data, const Transform& transform, int64_t sample,
               int64_t element) {
  if (sample < 0) return 0;
  float value = Ramp::Value(sample, element);
  if (!transform.mean.empty()) {
    const Shape shape = data.shape();
    const int64_t c = element / (shape.elements() / shape.channels);
    value = (value - transform.mean[c]) / transform.deviation[c];
  }
  return value;
}

void ExpectBatch(const Batch& batch, const Ramp& data, const SampleOrder& order,
                 const Transform& transform, const LaneLayout& layout) {
  const std::vector<int64_t> samples = order.Samples(batch.step, batch.shard);
  ASSERT_EQ(batch.labels.size(), samples.size());
  ASSERT_EQ(batch.samples.size(), samples.size());
  EXPECT_EQ(batch.epoch, batch.step / order.steps_per_epoch());
  EXPECT_EQ(batch.x.layout, layout);
  int64_t valid = 0;
  for (int64_t lane = 0; lane < layout.total_lanes(); ++lane) {
    const int64_t sample = lane < layout.samples ? samples[lane] : int64_t{-1};
    if (lane < layout.samples) {
      EXPECT_EQ(batch.labels[lane], sample < 0 ? -1 : sample % 10);
      if (sample >= 0) {
        EXPECT_EQ(static_cast<int64_t>(batch.samples[lane]), sample);
      }
    }
    valid += sample >= 0;
    const float* tile = batch.x.tile(lane / layout.lanes);
    for (int64_t e = 0; e < data.shape().elements(); ++e) {
      ASSERT_EQ(tile[e * layout.lanes + lane % layout.lanes],
                Expected(data, transform, sample, e))
          << "lane " << lane << " element " << e;
    }
  }
  EXPECT_EQ(batch.valid, valid);
}

// Sample i has i % 5 entries and i % 3 labels.
class SparseRamp : public Dataset {
 public:
  explicit SparseRamp(int64_t size) : size_(size) {
    for (int32_t i = 0; i < 5; ++i) {
      index_.push_back(3 * i);
      value_.push_back(static_cast<float>(i) + 0.5f);
      labels_.push_back(2 * i);
    }
  }
  int64_t size() const override { return size_; }
  Shape shape() const override { return {.channels = 20}; }
  int64_t classes() const override { return 10; }
  SampleKind kind() const override { return SampleKind::kSparse; }
  bool has_label_sets() const override { return true; }
  RowSizes row_sizes() const override {
    return {.largest_row = 4,
            .largest_set = 2,
            .entries = 2 * size_,
            .labels = size_};
  }
  SparseSample ReadSparse(int64_t index) const override {
    const auto entries = static_cast<size_t>(index % 5);
    return {.index = std::span(index_).first(entries),
            .value = std::span(value_).first(entries),
            .labels = std::span(labels_).first(static_cast<size_t>(index % 3))};
  }
  int32_t Read(int64_t, std::span<float>, std::span<float>) const override {
    ADD_FAILURE() << "sparse samples are not written out";
    return 0;
  }
  uint64_t fingerprint() const override { return 1; }
  int64_t memory_bytes() const override { return 0; }

 private:
  int64_t size_;
  std::vector<int32_t> index_, labels_;
  std::vector<float> value_;
};

TEST(Loader, SparseSamplesStayRows) {
  const SparseRamp data(50);
  for (const Order kind : {Order::kShuffle, Order::kFile}) {
    const SampleOrder order(50, 24, 2, 7, kind, Tail::kKeep);
    const LaneLayout layout = LaneLayout::For(12);
    Loader loader(&data, order, {}, layout, {0, 1}, 0, order.steps_per_epoch());
    int64_t valid = 0;
    while (const Batch* batch = loader.Next()) {
      const auto samples = order.Samples(batch->step, batch->shard);
      EXPECT_EQ(batch->x.data, nullptr);
      EXPECT_EQ(batch->x.layout, layout);
      ASSERT_EQ(batch->rows.rows(), 12);
      ASSERT_EQ(batch->label_sets.rows(), 12);
      EXPECT_LE(batch->rows.index.size(), 4u * 12);
      for (int64_t i = 0; i < 12; ++i) {
        const auto lane = static_cast<size_t>(i);
        const int64_t sample = samples[lane];
        const SparseSample expected =
            sample < 0 ? SparseSample() : data.ReadSparse(sample);
        const auto begin = static_cast<size_t>(batch->rows.start[lane]);
        const auto entries =
            static_cast<size_t>(batch->rows.start[lane + 1]) - begin;
        EXPECT_TRUE(std::ranges::equal(
            batch->rows.index.subspan(begin, entries), expected.index));
        EXPECT_TRUE(std::ranges::equal(
            batch->rows.value.subspan(begin, entries), expected.value));
        EXPECT_TRUE(
            std::ranges::equal(batch->label_sets.of(i), expected.labels));
        EXPECT_EQ(batch->labels[lane], sample < 0 ? -1 : 0);
        valid += sample >= 0;
      }
    }
    EXPECT_EQ(valid, 50);
  }
}

TEST(Loader, SparseBatchesAreBoundedByTheLargestRows) {
  const RowSizes sizes = {
      .largest_row = 4, .largest_set = 2, .entries = 1000, .labels = 15};
  EXPECT_EQ(Loader::SparseMemoryBytes(sizes, LaneLayout::For(12)),
            3 * (12 * 4 * 8 + 15 * 4 + 2 * 13 * 8));
}

TEST(Loader, BatchesHoldTheSamplesNormalisedInLanes) {
  const Transform none;
  const Transform normalize{{0.25f, -1.5f, 3.0f}, {0.3f, 2.0f, 7.0f}};
  struct Case {
    Shape shape;
    int64_t size;
    int64_t batch;
    int shards;
    int64_t max_lanes;
  };
  const Case cases[] = {
      {{.channels = 3, .height = 4, .width = 5}, 100, 40, 2, 128},
      {{.channels = 3}, 1000, 256, 4, 64},
      {{.channels = 3, .depth = 2, .height = 3, .width = 2}, 50, 33, 1, 16},
      {{.channels = 3, .height = 16, .width = 16}, 5, 64, 4, 128},
      {{.channels = 3}, 1, 1, 1, 128},
      {{.channels = 3}, 600, 296, 1, 128},
  };
  for (const Case& c : cases) {
    const Ramp data(c.size, c.shape);
    for (const Transform& transform : {none, normalize}) {
      for (const Tail tail : {Tail::kDrop, Tail::kKeep}) {
        const SampleOrder order(c.size, c.batch, c.shards, 3, Order::kShuffle,
                                tail);
        const LaneLayout layout =
            LaneLayout::For(order.shard_batch(), c.max_lanes);
        std::vector<int> shards(c.shards);
        for (int i = 0; i < c.shards; ++i) shards[i] = i;
        const int64_t steps = 2 * order.steps_per_epoch() + 1;
        Loader loader(&data, order, transform, layout, shards, 0, steps);
        for (int64_t step = 0; step < steps; ++step) {
          for (const int shard : shards) {
            const Batch* batch = loader.Next();
            ASSERT_NE(batch, nullptr);
            EXPECT_EQ(batch->step, step);
            EXPECT_EQ(batch->shard, shard);
            ExpectBatch(*batch, data, order, transform, layout);
          }
        }
        EXPECT_EQ(loader.Next(), nullptr);
        EXPECT_EQ(loader.Next(), nullptr);
      }
    }
  }
}

TEST(Loader, TargetsLieInTheLanesOfTheirSamples) {
  const Transform normalize{{3}, {2}};  // not of targets
  struct Case {
    int64_t targets;
    int64_t size;
    int64_t batch;
    int shards;
    int64_t max_lanes;
  };
  const Case cases[] = {{1, 100, 40, 2, 128},
                        {7, 50, 33, 1, 16},
                        {40, 5, 64, 4, 128},
                        {3, 600, 296, 1, 128},
                        {2, 1, 1, 1, 128}};
  for (const Case& c : cases) {
    const Ramp data(c.size, {.channels = 1}, c.targets);
    const SampleOrder order(c.size, c.batch, c.shards, 3, Order::kShuffle,
                            Tail::kKeep);
    const LaneLayout layout = LaneLayout::For(order.shard_batch(), c.max_lanes);
    std::vector<int> shards(c.shards);
    for (int i = 0; i < c.shards; ++i) shards[i] = i;
    // More steps than batches in memory: each is filled again.
    const int64_t steps = 2 * order.steps_per_epoch() + 4;
    Loader loader(&data, order, normalize, layout, shards, 0, steps);
    while (const Batch* batch = loader.Next()) {
      EXPECT_EQ(batch->targets.shape, (Shape{.channels = c.targets}));
      EXPECT_EQ(batch->targets.layout, layout);
      const std::vector<int64_t> samples =
          order.Samples(batch->step, batch->shard);
      for (int64_t lane = 0; lane < layout.total_lanes(); ++lane) {
        const int64_t sample =
            lane < layout.samples ? samples[lane] : int64_t{-1};
        if (lane < layout.samples) {
          EXPECT_EQ(batch->labels[lane], sample < 0 ? -1 : 0);
        }
        const float* tile = batch->targets.tile(lane / layout.lanes);
        for (int64_t t = 0; t < c.targets; ++t) {
          ASSERT_EQ(tile[t * layout.lanes + lane % layout.lanes],
                    sample < 0 ? 0 : -Ramp::Value(sample, t))
              << "lane " << lane << " target " << t;
        }
      }
    }
  }
}

TEST(Loader, LabelledSamplesHaveNoTargets) {
  const Ramp data(10, {.channels = 3});
  const SampleOrder order(10, 10, 1, 3, Order::kFile, Tail::kDrop);
  Loader loader(&data, order, {}, LaneLayout::For(10), {0}, 0, 1);
  const Batch* batch = loader.Next();
  EXPECT_EQ(batch->targets.data, nullptr);
  EXPECT_EQ(batch->targets.shape.channels, 0);
  EXPECT_EQ(batch->target_storage.size(), 0);
}

TEST(Loader, ResumedAtAStepItEqualsTheUnbrokenRun) {
  const Ramp data(100, {.channels = 7});
  const SampleOrder order(100, 24, 3, 3, Order::kShuffle, Tail::kDrop);
  const LaneLayout layout = LaneLayout::For(8);
  for (const int64_t resume : {1, 4, 5, 11}) {
    Loader whole(&data, order, {}, layout, {0, 2}, 0, 12);
    for (int64_t i = 0; i < 2 * resume; ++i) ASSERT_NE(whole.Next(), nullptr);
    Loader resumed(&data, order, {}, layout, {0, 2}, resume, 12);
    while (const Batch* a = whole.Next()) {
      const Batch* b = resumed.Next();
      ASSERT_NE(b, nullptr);
      EXPECT_EQ(a->step, b->step);
      EXPECT_EQ(a->shard, b->shard);
      EXPECT_EQ(a->samples, b->samples);
      EXPECT_TRUE(std::equal(a->x.data, a->x.data + a->x.size(), b->x.data));
    }
    EXPECT_EQ(resumed.Next(), nullptr);
  }
}

TEST(Loader, ARankWithoutShardsGetsNoBatches) {
  const Ramp data(100, {.channels = 7});
  const SampleOrder order(100, 8, 1, 3, Order::kShuffle, Tail::kDrop);
  Loader none(&data, order, {}, LaneLayout::For(8), {}, 0, 12);
  EXPECT_EQ(none.Next(), nullptr);
  Loader over(&data, order, {}, LaneLayout::For(8), {0}, 12, 12);
  EXPECT_EQ(over.Next(), nullptr);
}

TEST(Loader, AnErrorComesAfterTheBatchesBeforeIt) {
  Ramp data(100, {.channels = 7});
  data.bad_sample = 17;
  const SampleOrder order(100, 8, 2, 3, Order::kFile, Tail::kDrop);
  Loader loader(&data, order, {}, LaneLayout::For(4), {0, 1}, 0, 12);
  for (int i = 0; i < 4; ++i) ASSERT_NE(loader.Next(), nullptr);
  ExpectError<IoError>([&] { loader.Next(); }, {"sample 17"});
  ExpectError<IoError>([&] { loader.Next(); }, {"sample 17"});
}

TEST(Loader, D7ASkippedSampleIsAMaskedLaneInItsPlace) {
  Ramp data(32, {.channels = 3});
  data.bad_sample = 17;
  const SampleOrder order(32, 8, 2, 3, Order::kFile, Tail::kDrop);
  const Transform skip{.skip_bad_samples = true};
  Loader loader(&data, order, skip, LaneLayout::For(4), {0, 1}, 0, 4);
  int64_t batches = 0;
  while (const Batch* batch = loader.Next()) {
    ++batches;
    const bool bad = batch->step == 2 && batch->shard == 0;  // samples 16 to 19
    EXPECT_EQ(batch->valid, bad ? 3 : 4);
    for (int64_t l = 0; l < 4; ++l) {
      const int64_t sample = batch->step * 8 + batch->shard * 4 + l;
      EXPECT_EQ(batch->labels[l], sample == 17 ? -1 : sample % 10);
      EXPECT_EQ(batch->x.tile(0)[l],
                sample == 17 ? 0.0f : Ramp::Value(sample, 0));
    }
  }
  EXPECT_EQ(batches, 8);
  EXPECT_EQ(loader.bad_samples(), 1);
}

TEST(Loader, DestructionAtAnyTimeReturns) {
  Ramp data(1000, {.channels = 3});
  const SampleOrder order(1000, 64, 1, 3, Order::kShuffle, Tail::kDrop);
  for (const int delay : {0, 100}) {
    data.delay = std::chrono::microseconds(delay);
    for (int taken = 0; taken < 40; ++taken) {
      Loader loader(&data, order, {}, LaneLayout::For(64), {0}, 0, 1000000);
      for (int i = 0; i < taken % 5; ++i) ASSERT_NE(loader.Next(), nullptr);
      std::this_thread::sleep_for(std::chrono::microseconds(50 * taken));
    }
  }
}

TEST(Loader, ReadsTwoBatchesAheadAndNoMore) {
  const Ramp data(1000, {.channels = 3});
  const SampleOrder order(1000, 10, 1, 3, Order::kShuffle, Tail::kDrop);
  Loader loader(&data, order, {}, LaneLayout::For(10), {0}, 0, 100);
  ASSERT_NE(loader.Next(), nullptr);
  for (int i = 0; i < 20000 && data.reads < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data.reads, 30);
}

TEST(Loader, WaitingIsMeasured) {
  Ramp data(1000, {.channels = 3});
  data.delay = std::chrono::milliseconds(2);
  const SampleOrder order(1000, 10, 1, 3, Order::kShuffle, Tail::kDrop);
  Loader loader(&data, order, {}, LaneLayout::For(10), {0}, 0, 100);
  EXPECT_EQ(loader.wait_seconds(), 0);
  // Once is enough; a busy machine may let the reader get ahead.
  for (int i = 0; i < 99 && loader.wait_seconds() == 0; ++i) {
    ASSERT_NE(loader.Next(), nullptr);
  }
  EXPECT_GT(loader.wait_seconds(), 0);
}

TEST(Loader, MemoryIsThreeBatchesAndABlock) {
  const Shape shape{.channels = 3, .height = 8, .width = 8};
  const LaneLayout layout = LaneLayout::For(100, 64);
  const int64_t labelled = 4 * (3 * 192 * 128 + 16 * (192 + 16) + 16 * 16);
  EXPECT_EQ(Loader::MemoryBytes(shape, 0, layout), labelled);
  EXPECT_EQ(Loader::MemoryBytes(shape, 5, layout),
            labelled + 4 * (3 * 5 * 128 + 16 * 16));
}

}  // namespace
}  // namespace lumen::data
