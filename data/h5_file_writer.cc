// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "data/h5_driver.h"
#include "data/h5_handle.h"
#include "lumen/core/error.h"
#include "lumen/data/h5_file.h"

namespace lumen::data {

struct H5Writer::Impl {
  std::string path;
  DriverFile driver;
  hid_t file = -1;

  [[noreturn]] void Fail(const std::string& name, const std::string& what) {
    throw IoError(fmt::format("{}: {}: {}", path, name, what));
  }
  // After each call: did HDF5 fail, or the system below it?
  void Check(bool ok, const std::string& name, std::string_view what) {
    if (driver.error != 0) {
      Fail(name, fmt::format("cannot be written: {}; free some space, or check "
                             "the quota and the disk",
                             std::strerror(driver.error)));
    }
    if (!ok) Fail(name, fmt::format("{}: {}", what, H5Reason()));
  }

  void MakeGroups(const std::string& name);
  H5Handle NewArray(const std::string& name, hid_t type,
                    const std::vector<int64_t>& shape);
  void WriteBoxes(const std::string& name, hid_t array, int64_t offset,
                  int64_t count, hid_t memory_type, const void* values);
  template <class T>
  void WriteAll(const std::string& name, std::span<const T> values,
                const std::vector<int64_t>& shape, ElementType type,
                hid_t memory_type);
  std::vector<int64_t> ShapeOf(hid_t array);
};

// Groups and arrays carry no times, so that equal content gives equal bytes.
void H5Writer::Impl::MakeGroups(const std::string& name) {
  const H5Handle list(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  Check(list.ok() && H5Pset_obj_track_times(list, false) >= 0, name,
        "cannot prepare a group");
  for (size_t slash = name.find('/', 1); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const std::string parent = name.substr(0, slash);
    const htri_t exists = H5Lexists(file, parent.c_str(), H5P_DEFAULT);
    Check(exists >= 0, name, "cannot look up its group");
    if (exists > 0) continue;
    const H5Handle group(
        H5Gcreate2(file, parent.c_str(), H5P_DEFAULT, list, H5P_DEFAULT),
        H5Gclose);
    Check(group.ok(), name, "cannot create its group");
  }
}

H5Handle H5Writer::Impl::NewArray(const std::string& name, hid_t type,
                                  const std::vector<int64_t>& shape) {
  CHECK(file >= 0) << path << " is already closed";
  CHECK(name.size() > 1 && name[0] == '/') << name;
  MakeGroups(name);
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const H5Handle space(dims.empty()
                           ? H5Screate(H5S_SCALAR)
                           : H5Screate_simple(static_cast<int>(dims.size()),
                                              dims.data(), nullptr),
                       H5Sclose);
  Check(space.ok(), name, "cannot describe its shape");
  const H5Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  Check(list.ok() && H5Pset_obj_track_times(list, false) >= 0 &&
            H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0,
        name, "cannot prepare the array");
  H5Handle array(H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, list,
                            H5P_DEFAULT),
                 H5Dclose);
  Check(array.ok(), name, "cannot create the array");
  return array;
}

std::vector<int64_t> H5Writer::Impl::ShapeOf(hid_t array) {
  const H5Handle space(H5Dget_space(array), H5Sclose);
  std::vector<hsize_t> dims(H5Sget_simple_extent_ndims(space));
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  return {dims.begin(), dims.end()};
}

void H5Writer::Impl::WriteBoxes(const std::string& name, hid_t array,
                                int64_t offset, int64_t count,
                                hid_t memory_type, const void* values) {
  const H5Handle target(H5Dget_space(array), H5Sclose);
  const size_t width = H5Tget_size(memory_type);
  const auto* next = static_cast<const char*>(values);
  ForEachBox(ShapeOf(array), offset, count,
             [&](const std::vector<hsize_t>& start,
                 const std::vector<hsize_t>& extent, int64_t elements) {
               const hsize_t size = static_cast<hsize_t>(elements);
               const H5Handle source(H5Screate_simple(1, &size, nullptr),
                                     H5Sclose);
               const bool selected =
                   start.empty() ||
                   H5Sselect_hyperslab(target, H5S_SELECT_SET, start.data(),
                                       nullptr, extent.data(), nullptr) >= 0;
               Check(selected && H5Dwrite(array, memory_type, source, target,
                                          H5P_DEFAULT, next) >= 0,
                     name, "cannot write");
               next += size * width;
             });
}

template <class T>
void H5Writer::Impl::WriteAll(const std::string& name,
                              std::span<const T> values,
                              const std::vector<int64_t>& shape,
                              ElementType type, hid_t memory_type) {
  int64_t elements = 0;
  CHECK(CountElements(shape, &elements) &&
        elements == static_cast<int64_t>(values.size()))
      << name << ": " << values.size() << " values for shape "
      << ShapeName(shape);
  const H5Handle array = NewArray(name, FileType(type), shape);
  WriteBoxes(name, array, 0, elements, memory_type, values.data());
}

H5Writer::H5Writer(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->driver.writable = true;
  impl_->driver.descriptor =
      open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (impl_->driver.descriptor < 0) {
    throw IoError(
        fmt::format("{}: cannot be created: {}", path, std::strerror(errno)));
  }
  const H5Session session;
  const H5Handle create(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // 1.8 metadata: checksummed, and readable by every HDF5 in use. 1.10 would
  // add an "open for writing" flag that a killed writer leaves behind.
  const bool ready =
      create.ok() && access.ok() &&
      H5Pset_obj_track_times(create, false) >= 0 &&
      H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18) >= 0 &&
      SetDriver(access, &impl_->driver) >= 0;
  if (ready) {
    impl_->file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create, access);
  }
  impl_->Check(impl_->file >= 0, "/", "cannot create the file");
}

H5Writer::~H5Writer() {
  if (impl_->file < 0) return;
  const H5Session session;
  H5Fclose(impl_->file);
}

void H5Writer::Write(const std::string& name, std::span<const float> values,
                     const std::vector<int64_t>& shape) {
  const H5Session session;
  impl_->WriteAll(name, values, shape, ElementType::kFloat32, H5T_NATIVE_FLOAT);
}

void H5Writer::Write(const std::string& name, std::span<const int64_t> values,
                     const std::vector<int64_t>& shape) {
  const H5Session session;
  impl_->WriteAll(name, values, shape, ElementType::kInt64, H5T_NATIVE_INT64);
}

void H5Writer::WriteText(const std::string& name, const std::string& text) {
  const H5Session session;
  const H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  // HDF5 has no string of no bytes; padding with NUL is taken off again.
  impl_->Check(type.ok() &&
                   H5Tset_size(type, std::max<size_t>(1, text.size())) >= 0 &&
                   H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0 &&
                   H5Tset_cset(type, H5T_CSET_UTF8) >= 0,
               name, "cannot describe a text");
  const H5Handle array = impl_->NewArray(name, type, {});
  impl_->WriteBoxes(name, array, 0, 1, type, text.empty() ? "\0" : text.data());
}

void H5Writer::Create(const std::string& name, ElementType type,
                      const std::vector<int64_t>& shape) {
  const H5Session session;
  impl_->NewArray(name, FileType(type), shape);
}

namespace {

void CheckPart(const std::string& name, const std::vector<int64_t>& shape,
               int64_t offset, int64_t count) {
  int64_t elements = 0;
  CHECK(CountElements(shape, &elements));
  CHECK(offset >= 0 && count <= elements - offset)
      << name << ": part of " << count << " values at " << offset
      << " leaves the shape " << ShapeName(shape);
}

}  // namespace

void H5Writer::WritePart(const std::string& name, int64_t offset,
                         std::span<const float> values) {
  CHECK(impl_->file >= 0) << impl_->path << " is already closed";
  const H5Session session;
  const H5Handle array(H5Dopen2(impl_->file, name.c_str(), H5P_DEFAULT),
                       H5Dclose);
  impl_->Check(array.ok(), name, "cannot open the array");
  const H5Handle type(H5Dget_type(array), H5Tclose);
  CHECK(H5Tget_class(type) == H5T_FLOAT) << name << ": not a float array";
  const auto count = static_cast<int64_t>(values.size());
  CheckPart(name, impl_->ShapeOf(array), offset, count);
  impl_->WriteBoxes(name, array, offset, count, H5T_NATIVE_FLOAT,
                    values.data());
}

void H5Writer::WritePart(const std::string& name, int64_t offset,
                         std::span<const int64_t> values) {
  CHECK(impl_->file >= 0) << impl_->path << " is already closed";
  const H5Session session;
  const H5Handle array(H5Dopen2(impl_->file, name.c_str(), H5P_DEFAULT),
                       H5Dclose);
  impl_->Check(array.ok(), name, "cannot open the array");
  const H5Handle type(H5Dget_type(array), H5Tclose);
  CHECK(H5Tget_class(type) == H5T_INTEGER) << name << ": not an integer array";
  const auto count = static_cast<int64_t>(values.size());
  CheckPart(name, impl_->ShapeOf(array), offset, count);
  // HDF5 would clip silently.
  const size_t width = H5Tget_size(type);
  if (width < sizeof(int64_t)) {
    const int64_t lowest = width == 1 ? 0 : std::numeric_limits<int32_t>::min();
    const int64_t highest =
        width == 1 ? 255 : std::numeric_limits<int32_t>::max();
    for (const int64_t value : values) {
      CHECK(value >= lowest && value <= highest)
          << name << ": " << value << " does not fit " << width << " bytes";
    }
  }
  impl_->WriteBoxes(name, array, offset, count, H5T_NATIVE_INT64,
                    values.data());
}

void H5Writer::Close() {
  CHECK(impl_->file >= 0) << impl_->path << " is already closed";
  {
    const H5Session session;
    const herr_t closed = H5Fclose(std::exchange(impl_->file, -1));
    impl_->Check(closed >= 0, "/", "cannot close the file");
  }
  const int descriptor = std::exchange(impl_->driver.descriptor, -1);
  if (fsync(descriptor) != 0) impl_->driver.error = errno;
  if (close(descriptor) != 0 && impl_->driver.error == 0) {
    impl_->driver.error = errno;
  }
  impl_->Check(true, "/", "");
}

}  // namespace lumen::data
