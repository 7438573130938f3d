// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/hash.h"
#include "lumen/core/schema.h"

namespace lumen::train {
namespace {

namespace fs = std::filesystem;

constexpr Key kFileKeys[] = {
    {.name = "name", .kind = KeyKind::kText},
    {.name = "bytes", .kind = KeyKind::kInteger, .minimum = 0},
    {.name = "digest", .kind = KeyKind::kText},
};

constexpr char kFormat[] = "lumen-checkpoint-2";
constexpr char kFormatWithoutDigest[] = "lumen-checkpoint-1";

// Everything but the digest itself.
std::string DigestOf(const Json& manifest) {
  Json rest = Json::Object();
  for (const auto& [key, value] : manifest.members()) {
    if (key != "digest") rest.Set(key, value);
  }
  const std::string text = rest.Dump();
  Hasher hasher;
  hasher.Update(std::as_bytes(std::span<const char>(text)));
  return HexDigest(hasher.Digest());
}

bool IsText(const Json* json, std::string_view text) {
  return json != nullptr && json->kind() == Json::Kind::kText &&
         json->text() == text;
}

void RequireDigest(const std::string& path, const Json& manifest) {
  const Json* digest = manifest.Find("digest");
  const Json* format = manifest.Find("format");
  if (digest == nullptr && IsText(format, kFormatWithoutDigest)) return;
  if (IsText(format, kFormat) && IsText(digest, DigestOf(manifest))) return;
  throw IoError(path + ": damaged, or of a newer version; expected format " +
                kFormat + " and the digest " + DigestOf(manifest));
}

// "step-500" gives 500, anything else -1.
int64_t StepOfFolder(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return -1;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  int64_t step = -1;
  const auto [rest, error] = std::from_chars(begin, end, step);
  return error == std::errc() && rest == end ? step : -1;
}

bool IsWhole(const std::string& checkpoint, std::string* why) {
  try {
    const Manifest manifest = ReadManifest(checkpoint);
    for (const CheckpointFile& file : manifest.files) {
      VerifyFile(checkpoint, manifest, file.name);
    }
    return true;
  } catch (const IoError& error) {
    *why += std::string("\n  ") + error.what();
    return false;
  }
}

}  // namespace

const CheckpointFile* Manifest::Find(const std::string& name) const {
  for (const CheckpointFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::vector<std::string> ListCheckpoints(const std::string& run_folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(run_folder + "/checkpoints", error)) {
    const int64_t step = StepOfFolder(entry.path().filename().string());
    if (step >= 0) found.emplace_back(step, entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

Json ManifestJson(const Manifest& manifest) {
  Json list = Json::Array();
  for (const CheckpointFile& file : manifest.files) {
    Json item = Json::Object();
    item.Set("name", file.name);
    item.Set("bytes", file.bytes);
    item.Set("digest", file.digest);
    list.Append(std::move(item));
  }
  Json json = Json::Object();
  json.Set("format", std::string(kFormat));
  json.Set("step", manifest.step);
  json.Set("best", manifest.best);
  json.Set("files", std::move(list));
  json.Set("digest", DigestOf(json));
  return json;
}

Manifest ReadManifest(const std::string& checkpoint) {
  const std::string path = checkpoint + "/MANIFEST.json";
  if (!fs::exists(path)) {
    throw IoError(checkpoint +
                  ": has no MANIFEST.json; the checkpoint was never finished");
  }
  // Every member is checked before it is used: the file may hold anything.
  try {
    const Json json = Json::ParseFile(path);
    const Json* step = json.is_object() ? json.Find("step") : nullptr;
    const Json* files = json.is_object() ? json.Find("files") : nullptr;
    if (step == nullptr || step->kind() != Json::Kind::kInteger ||
        files == nullptr || !files->is_array()) {
      throw IoError(path + ": damaged; expected \"step\" and \"files\"");
    }
    RequireDigest(path, json);
    Manifest manifest{.step = step->integer()};
    for (const Json& item : files->items()) {
      const Json file = Resolve(item, kFileKeys, "files");
      manifest.files.push_back({file.at("name").text(),
                                file.at("bytes").integer(),
                                file.at("digest").text()});
    }
    if (const Json* best = json.Find("best")) manifest.best = *best;
    return manifest;
  } catch (const SpecError& error) {
    throw IoError(path + ": damaged: " + error.what());
  }
}

void VerifyFile(const std::string& checkpoint, const Manifest& manifest,
                const std::string& name) {
  const std::string path = checkpoint + "/" + name;
  const CheckpointFile* expected = manifest.Find(name);
  if (expected == nullptr) {
    throw IoError(path + ": not in the manifest of this checkpoint");
  }
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error) throw IoError(path + ": " + error.message());
  if (bytes != expected->bytes) {
    throw IoError(path + ": " + std::to_string(bytes) + " bytes; expected " +
                  std::to_string(expected->bytes) + "; the file is damaged");
  }
  const std::string digest = HexDigest(HashFile(path));
  if (digest != expected->digest) {
    throw IoError(path + ": digest " + digest + "; expected " +
                  expected->digest + "; the file is damaged");
  }
}

std::string FindCheckpoint(const std::string& run_or_checkpoint) {
  if (!fs::is_directory(run_or_checkpoint)) {
    throw IoError(run_or_checkpoint +
                  ": no such folder; expected a run folder or a checkpoint "
                  "folder (RUN/checkpoints/step-N)");
  }
  std::string why;
  if (StepOfFolder(fs::path(run_or_checkpoint).filename().string()) >= 0) {
    if (IsWhole(run_or_checkpoint, &why)) return run_or_checkpoint;
    throw IoError(run_or_checkpoint + ": not a whole checkpoint:" + why);
  }
  const std::vector<std::string> all = ListCheckpoints(run_or_checkpoint);
  // The newest manifest knows the best step so far.
  for (const std::string& path : all) {
    if (!IsWhole(path, &why)) continue;
    const Manifest manifest = ReadManifest(path);
    if (const Json* step =
            manifest.best.is_object() ? manifest.best.Find("step") : nullptr) {
      const std::string best = run_or_checkpoint + "/checkpoints/step-" +
                               std::to_string(step->integer());
      if (best != path && IsWhole(best, &why)) return best;
    }
    return path;
  }
  throw IoError(run_or_checkpoint + ": no whole checkpoint among " +
                std::to_string(all.size()) + why);
}

}  // namespace lumen::train
