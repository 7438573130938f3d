// SPDX-License-Identifier: Apache-2.0
// What H5Writer and H5Reader share: the lock, owned HDF5 ids, errors, types.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lumen/data/h5_file.h"

namespace lumen::data {

// Held during every call into HDF5. Also keeps the library from printing.
class H5Session {
 public:
  H5Session();
  ~H5Session();
  H5Session(const H5Session&) = delete;
  H5Session& operator=(const H5Session&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// Owns an id. Declare it after the session that covers its life.
class H5Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  H5Handle(hid_t id, Closer close) : id_(id), close_(close) {}
  ~H5Handle() {
    if (id_ >= 0) close_(id_);
  }
  H5Handle(H5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  H5Handle& operator=(H5Handle&&) = delete;

  operator hid_t() const { return id_; }  // NOLINT
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
  Closer close_;
};

// The most specific entry of HDF5's error stack.
std::string H5Reason();

std::string_view TypeName(ElementType type);
hid_t FileType(ElementType type);  // not owned
// The product; false when it leaves int64.
bool CountElements(const std::vector<int64_t>& shape, int64_t* elements);
std::string ShapeName(const std::vector<int64_t>& shape);  // "3x4", "scalar"

// Cuts [offset, offset + count) of the flattened array into at most 2 * rank -
// 1 boxes, in order: what HDF5 can select at once. `visit` gets start and
// extent.
using H5BoxVisitor =
    std::function<void(const std::vector<hsize_t>& start,
                       const std::vector<hsize_t>& extent, int64_t elements)>;
void ForEachBox(const std::vector<int64_t>& shape, int64_t offset,
                int64_t count, const H5BoxVisitor& visit);

}  // namespace lumen::data
