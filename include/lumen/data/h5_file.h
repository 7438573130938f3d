// SPDX-License-Identifier: Apache-2.0
// HDF5 files of named arrays, for checkpoints and data sets. hdf5.h stays
// inside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lumen::data {

enum class ElementType { kFloat32, kFloat64, kInt32, kInt64, kUint8 };

struct ArrayInfo {
  std::string name;  // "/parameters/fc1.weight/values"
  ElementType type;
  std::vector<int64_t> shape;
};

// All calls of the process are serialised by one lock inside (Debian's HDF5 is
// not thread-safe), so a background writer and a reader may coexist. Throws
// IoError naming file, array, what was found and expected.
class H5Writer {
 public:
  // Creates or truncates `path`.
  explicit H5Writer(const std::string& path);
  // Closes quietly when Close was not called.
  ~H5Writer();
  H5Writer(const H5Writer&) = delete;
  H5Writer& operator=(const H5Writer&) = delete;

  // Intermediate groups are created.
  void Write(const std::string& name, std::span<const float> values,
             const std::vector<int64_t>& shape);
  void Write(const std::string& name, std::span<const int64_t> values,
             const std::vector<int64_t>& shape);
  void WriteText(const std::string& name, const std::string& text);
  // A contiguous array written in pieces, for arrays never held whole.
  void Create(const std::string& name, ElementType type,
              const std::vector<int64_t>& shape);
  void WritePart(const std::string& name, int64_t offset,
                 std::span<const float> values);
  void WritePart(const std::string& name, int64_t offset,
                 std::span<const int64_t> values);
  // Flushes, closes and fsyncs. Throws when the disk is full.
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class H5Reader {
 public:
  explicit H5Reader(const std::string& path);
  ~H5Reader();
  H5Reader(const H5Reader&) = delete;
  H5Reader& operator=(const H5Reader&) = delete;

  bool Has(const std::string& name) const;
  ArrayInfo Info(const std::string& name) const;
  std::vector<ArrayInfo> List() const;  // every array, sorted by name
  // Converts to the requested type when no value can change (uint8 to float).
  // `offset` counts elements of the flattened array.
  void Read(const std::string& name, int64_t offset,
            std::span<float> values) const;
  void Read(const std::string& name, int64_t offset,
            std::span<double> values) const;
  void Read(const std::string& name, int64_t offset,
            std::span<int64_t> values) const;
  // Keeps one array open between reads of it (the one named last). When it is
  // stored in chunks, those that hold one index of the first dimension stay in
  // memory as well: returns their bytes, 0 without chunks. Throws IoError when
  // that is more than 1 GiB.
  int64_t KeepOpen(const std::string& name);
  std::string ReadText(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lumen::data
