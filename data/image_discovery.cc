// SPDX-License-Identifier: Apache-2.0
// Image folders that nobody described: splits, and the size to bring images to.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "data/found_files.h"
#include "data/image.h"
#include "data/image_list.h"
#include "lumen/core/file.h"

namespace lumen::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLookedAt = 64;
// Sizes that networks are made for; an image is not enlarged to reach one.
constexpr int64_t kSizes[] = {224, 160, 128, 96, 64, 48, 32, 28};

bool HasImages(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (IsImageFile(entry.path().filename().string())) return true;
  }
  return false;
}

// Sub-folders that hold images: the classes of a split, or the splits.
std::vector<std::string> FoldersOfImages(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code error;
    if (!name.starts_with('.') && entry.is_directory(error) &&
        HasImages(entry.path().string())) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

// The typical image of a split: the median of the sides of some of them.
struct Typical {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 1;
};
Typical LookAt(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (IsImageFile(entry.path().filename().string())) {
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  std::vector<int64_t> heights;
  std::vector<int64_t> widths;
  Typical typical;
  // A target this large keeps the decoder from halving the image.
  const Fit whole{FitKind::kStretch, 65535, 65535};
  const size_t stride = files.size() / kMostLookedAt + 1;
  for (size_t i = 0; i < files.size(); i += stride) {
    try {
      const Image image = DecodeImage(ReadFile(files[i]), files[i], whole);
      heights.push_back(image.height);
      widths.push_back(image.width);
      typical.channels = std::max(typical.channels, image.channels);
    } catch (const std::exception&) {
      // Counted when the samples are looked at.
    }
  }
  if (heights.empty()) return {224, 224, 3};
  std::ranges::sort(heights);
  std::ranges::sort(widths);
  typical.height = heights[heights.size() / 2];
  typical.width = widths[widths.size() / 2];
  return typical;
}

}  // namespace

std::optional<Discovery> DiscoverImages(const std::string& path) {
  if (!fs::is_directory(path)) return std::nullopt;
  const std::vector<std::string> folders = FoldersOfImages(path);
  if (folders.empty()) return std::nullopt;
  Json spec = Json::Object();
  std::string train;
  spec.Set("root", RootOf(path));
  for (const std::string& name : folders) {
    const FoundName found = ReadName(name);
    const bool names_split =
        found.other.empty() && !FoldersOfImages(path + "/" + name).empty();
    if (!names_split) continue;
    spec.Set(SplitName(found.split), name);
    if (found.split == Split::kTrain) train = name;
  }
  if (train.empty()) {  // classes lie in the folder itself
    train = ".";
    spec = Json::Object();
    spec.Set("root", RootOf(path));
    spec.Set("train", train);
  }
  const Typical typical = LookAt(path + "/" + train);
  const int64_t side = std::min(typical.height, typical.width);
  const auto* size = std::ranges::find_if(
      kSizes, [&](int64_t known) { return known <= side; });
  const int64_t target = size == std::end(kSizes) ? side : *size;
  Json sides = Json::Array();
  sides.Append(target);
  sides.Append(target);
  spec.Set("size", std::move(sides));
  spec.Set("channels", typical.channels == 1 ? 1 : 3);
  return Discovery{
      std::move(spec),
      {fmt::format("images of about {}x{} pixels are brought to {}x{}",
                   typical.height, typical.width, target, target)}};
}

}  // namespace lumen::data
