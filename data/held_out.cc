// SPDX-License-Identifier: Apache-2.0
#include "data/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "data/files.h"
#include "data/sparse_dataset.h"
#include "lumen/core/error.h"
#include "lumen/core/hash.h"
#include "lumen/core/philox.h"

namespace lumen::data {
namespace {

[[noreturn]] void Fail(const Json& spec, std::string_view key,
                       const std::string& problem) {
  const std::string where = spec.at(key).where();
  throw SpecError(fmt::format("{}{}data.{}: {}", where,
                              where.empty() ? "" : ": ", key, problem));
}

bool IsGiven(const Json& spec, std::string_view key) {
  const Json* value = spec.Find(key);
  return value != nullptr && !value->is_null();
}

int64_t Share(const Json& spec, int64_t samples) {
  return std::llround(spec.at("valid_fraction").number() *
                      static_cast<double>(samples));
}

void CheckCount(const Json& spec, int64_t count, int64_t samples) {
  if (count > 0 && count < samples) return;
  Fail(spec, "valid_fraction",
       fmt::format("takes {} of {} samples; expected some for each split",
                   count, samples));
}

// Samples in the order in which they are taken.
struct Candidate {
  uint64_t draw;
  uint64_t group;
  int64_t sample;
};

// Appends the first `share` of `candidates`, and the rest of the last group.
void Take(std::vector<Candidate>* candidates, int64_t share,
          std::vector<int64_t>* taken) {
  std::ranges::sort(*candidates, {}, [](const Candidate& c) {
    return std::tuple(c.draw, c.group, c.sample);
  });
  for (size_t i = 0; i < candidates->size(); ++i) {
    const Candidate& candidate = (*candidates)[i];
    const bool begun = i > 0 && (*candidates)[i - 1].group == candidate.group;
    if (static_cast<int64_t>(i) >= share && (share == 0 || !begun)) break;
    taken->push_back(candidate.sample);
  }
}

class Part : public Dataset {
 public:
  Part(std::shared_ptr<const Dataset> train, std::vector<int64_t> samples,
       Split split)
      : train_(std::move(train)), samples_(std::move(samples)), split_(split) {
    Hasher hasher;
    const uint64_t whole = train_->fingerprint();
    hasher.Update(&whole, sizeof(whole));
    hasher.Update(std::span<const int64_t>(samples_));
    fingerprint_ = hasher.Digest();
    if (kind() == SampleKind::kSparse) row_sizes_ = SizesOf(*this);
  }

  int64_t size() const override { return std::ssize(samples_); }
  Shape shape() const override { return train_->shape(); }
  int64_t classes() const override { return train_->classes(); }
  int64_t targets() const override { return train_->targets(); }
  SampleKind kind() const override { return train_->kind(); }
  bool has_label_sets() const override { return train_->has_label_sets(); }
  RowSizes row_sizes() const override { return row_sizes_; }
  int32_t Read(int64_t index, std::span<float> x,
               std::span<float> targets) const override {
    return train_->Read(samples_[index], x, targets);
  }
  SparseSample ReadSparse(int64_t index) const override {
    return train_->ReadSparse(samples_[index]);
  }
  int32_t Label(int64_t index) const override {
    return train_->Label(samples_[index]);
  }
  uint64_t Group(int64_t index) const override {
    return train_->Group(samples_[index]);
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t memory_bytes() const override {
    const int64_t own = size() * static_cast<int64_t>(sizeof(int64_t));
    return split_ == Split::kTrain ? own + train_->memory_bytes() : own;
  }
  std::vector<std::string> class_names() const override {
    return train_->class_names();
  }
  std::string SampleName(int64_t index) const override {
    return train_->SampleName(samples_[index]);
  }
  std::vector<std::string> notes() const override {
    if (split_ != Split::kTrain) return {};
    return train_->notes();
  }

 private:
  std::shared_ptr<const Dataset> train_;
  std::vector<int64_t> samples_;
  Split split_;
  uint64_t fingerprint_ = 0;
  RowSizes row_sizes_;
};

}  // namespace

bool HasValidFraction(const Json& spec) {
  if (spec.at("valid_fraction").number() == 0) return false;
  if (IsGiven(spec, "valid") ||
      DeclaredSamples(spec, Split::kValid).value_or(0) > 0) {
    Fail(spec, "valid_fraction",
         "given beside a validation split; expected one of the two");
  }
  if (spec.at("stratified").boolean() && IsGiven(spec, "group")) {
    Fail(spec, "stratified", "true beside data.group; expected one of the two");
  }
  return true;
}

bool CountNeedsSamples(const Json& spec) {
  return spec.at("stratified").boolean() || IsGiven(spec, "group");
}

int64_t HeldOutCount(const Json& spec, int64_t samples) {
  const int64_t count = Share(spec, samples);
  CheckCount(spec, count, samples);
  return count;
}

std::vector<int64_t> HeldOutSamples(const Json& spec, const Dataset& train) {
  const bool stratified = spec.at("stratified").boolean();
  if (stratified && (train.targets() > 0 || train.has_label_sets())) {
    Fail(spec, "stratified",
         fmt::format("true for {}; expected one class per sample",
                     train.targets() > 0 ? "real targets" : "sets of labels"));
  }
  const RandomKey key =
      NewRandomKey(static_cast<uint64_t>(spec.at("split_seed").integer()),
                   Stream::kSplit, 0);
  std::map<int32_t, std::vector<Candidate>> strata;
  for (int64_t i = 0; i < train.size(); ++i) {
    const uint64_t group = train.Group(i);
    const auto words = Draw(key, 0, group, 0);
    strata[stratified ? train.Label(i) : 0].push_back(
        {uint64_t{words[1]} << 32 | words[0], group, i});
  }
  std::vector<int64_t> taken;
  for (auto& [label, candidates] : strata) {
    Take(&candidates, Share(spec, std::ssize(candidates)), &taken);
  }
  CheckCount(spec, std::ssize(taken), train.size());
  std::ranges::sort(taken);
  return taken;
}

std::unique_ptr<Dataset> NewPart(const Json& spec,
                                 std::shared_ptr<const Dataset> train,
                                 Split split) {
  std::vector<int64_t> samples = HeldOutSamples(spec, *train);
  if (split == Split::kTrain) {
    std::vector<int64_t> all(train->size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<int64_t> rest;
    std::ranges::set_difference(all, samples, std::back_inserter(rest));
    samples = std::move(rest);
  }
  return std::make_unique<Part>(std::move(train), std::move(samples), split);
}

}  // namespace lumen::data
