// SPDX-License-Identifier: Apache-2.0
// Checkpoints: which ones there are, which one is whole, what is in it. The
// layout is documented in src/train/README.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/core/json.h"

namespace lumen::train {

struct CheckpointFile {
  std::string name;  // "model.h5", "shard-3.h5"
  int64_t bytes = 0;
  std::string digest;  // XXH64 of the whole file, 16 hex digits
};

// MANIFEST.json: written last, so a folder without it is not a checkpoint.
struct Manifest {
  int64_t step = 0;
  std::vector<CheckpointFile> files;
  Json best;  // null, or {step, split, metric, value}

  const CheckpointFile* Find(const std::string& name) const;
};

// The object of MANIFEST.json, with a digest of itself (XXH64 of the rest as
// one line), so that no flipped byte of it is believed either.
Json ManifestJson(const Manifest& manifest);
// "checkpoints/step-500" of every step there is, newest first; complete or not.
std::vector<std::string> ListCheckpoints(const std::string& run_folder);
// Throws IoError naming the file when it is absent or damaged.
Manifest ReadManifest(const std::string& checkpoint);
// Compares size and digest of one file with the manifest, before anybody opens
// it. Throws IoError "path: digest X; expected Y; ...".
void VerifyFile(const std::string& checkpoint, const Manifest& manifest,
                const std::string& name);
// A run folder gives its best checkpoint, else its newest whole one; a
// checkpoint folder gives itself. Verified. Throws IoError saying what it
// tried.
std::string FindCheckpoint(const std::string& run_or_checkpoint);

}  // namespace lumen::train
