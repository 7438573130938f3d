// SPDX-License-Identifier: Apache-2.0
#include "data/h5_handle.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/text.h"

namespace lumen::data {
namespace {

std::mutex& ProcessLock() {
  static std::mutex mutex;
  return mutex;
}

herr_t KeepFirst(unsigned, const H5E_error2_t* entry, void* data) {
  auto* reason = static_cast<std::string*>(data);
  if (reason->empty() && entry->desc != nullptr) *reason = entry->desc;
  return 0;
}

struct Boxes {
  const std::vector<int64_t>& shape;
  const H5BoxVisitor& visit;
  std::vector<hsize_t> start;
  std::vector<hsize_t> extent;

  void Emit(size_t dim, int64_t first, int64_t rows, int64_t stride) {
    start[dim] = static_cast<hsize_t>(first);
    extent[dim] = static_cast<hsize_t>(rows);
    for (size_t d = dim + 1; d < shape.size(); ++d) {
      start[d] = 0;
      extent[d] = static_cast<hsize_t>(shape[d]);
    }
    visit(start, extent, rows * stride);
  }

  void Walk(size_t dim, int64_t offset, int64_t count) {
    int64_t stride = 1;
    for (size_t d = dim + 1; d < shape.size(); ++d) stride *= shape[d];
    const auto partial = [&](int64_t size) {
      start[dim] = static_cast<hsize_t>(offset / stride);
      extent[dim] = 1;
      Walk(dim + 1, offset % stride, size);
      offset += size;
      count -= size;
    };
    const int64_t inside = offset % stride;
    if (inside != 0) partial(std::min(count, stride - inside));
    if (const int64_t rows = count / stride; rows > 0) {
      Emit(dim, offset / stride, rows, stride);
      offset += rows * stride;
      count -= rows * stride;
    }
    if (count > 0) partial(count);
  }
};

}  // namespace

H5Session::H5Session() : lock_(ProcessLock()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Session::~H5Session() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

std::string H5Reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, KeepFirst, &reason);
  return reason.empty() ? "no reason given by HDF5" : reason;
}

std::string_view TypeName(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kUint8:
      return "uint8";
  }
  return "unknown";
}

hid_t FileType(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return H5T_IEEE_F32LE;
    case ElementType::kFloat64:
      return H5T_IEEE_F64LE;
    case ElementType::kInt32:
      return H5T_STD_I32LE;
    case ElementType::kInt64:
      return H5T_STD_I64LE;
    case ElementType::kUint8:
      return H5T_STD_U8LE;
  }
  return -1;
}

bool CountElements(const std::vector<int64_t>& shape, int64_t* elements) {
  *elements = 1;
  if (std::ranges::find(shape, 0) != shape.end()) {
    *elements = 0;
    return true;
  }
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(*elements, size, elements)) {
      return false;
    }
  }
  return true;
}

std::string ShapeName(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  return Joined(shape, "x");
}

void ForEachBox(const std::vector<int64_t>& shape, int64_t offset,
                int64_t count, const H5BoxVisitor& visit) {
  if (count == 0) return;
  if (shape.empty()) {
    visit({}, {}, 1);
    return;
  }
  Boxes boxes{shape, visit, std::vector<hsize_t>(shape.size()),
              std::vector<hsize_t>(shape.size())};
  boxes.Walk(0, offset, count);
}

}  // namespace lumen::data
