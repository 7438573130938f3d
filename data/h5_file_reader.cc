// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>

#include "data/h5_driver.h"
#include "data/h5_handle.h"
#include "lumen/core/error.h"
#include "lumen/data/h5_file.h"

namespace lumen::data {
namespace {

std::optional<ElementType> ElementTypeOf(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const size_t width = H5Tget_size(type);
  if (kind == H5T_FLOAT && width == 4) return ElementType::kFloat32;
  if (kind == H5T_FLOAT && width == 8) return ElementType::kFloat64;
  if (kind != H5T_INTEGER) return std::nullopt;
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (is_signed && width == 4) return ElementType::kInt32;
  if (is_signed && width == 8) return ElementType::kInt64;
  if (!is_signed && width == 1) return ElementType::kUint8;
  return std::nullopt;
}

std::string FoundTypeName(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return fmt::format("float{}", 8 * H5Tget_size(type));
    case H5T_INTEGER:
      return fmt::format("{}int{}", H5Tget_sign(type) == H5T_SGN_2 ? "" : "u",
                         8 * H5Tget_size(type));
    case H5T_STRING:
      return "text";
    default:
      return "neither a number nor a text";
  }
}

bool FitsFloat(hid_t type) {
  const size_t width = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  return (kind == H5T_FLOAT && width <= 4) ||
         (kind == H5T_INTEGER && width <= 2);
}

bool FitsDouble(hid_t type) {
  const size_t width = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  return (kind == H5T_FLOAT && width <= 8) ||
         (kind == H5T_INTEGER && width <= 4);
}

bool FitsInt64(hid_t type) {
  const size_t width = H5Tget_size(type);
  return H5Tget_class(type) == H5T_INTEGER &&
         (width < 8 || (width == 8 && H5Tget_sign(type) == H5T_SGN_2));
}

constexpr int64_t kMaxChunkBytes = int64_t{1} << 30;
constexpr size_t kChunkSlots = 10007;  // of HDF5's table, a prime

// Bytes of the chunks that one index of the first dimension lies in.
int64_t ChunkBytes(const std::vector<int64_t>& shape,
                   const std::vector<hsize_t>& sides, int64_t width) {
  double bytes = static_cast<double>(width);
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto side = static_cast<double>(sides[d]);
    const double chunks = d == 0 ? 1 : std::ceil(shape[d] / side);
    bytes *= chunks * side;
  }
  return static_cast<int64_t>(std::min(bytes, 1e18));
}

herr_t CollectHardLinks(hid_t, const char* name, const H5L_info_t* link,
                        void* data) {
  if (link->type == H5L_TYPE_HARD) {
    static_cast<std::vector<std::string>*>(data)->push_back(std::string("/") +
                                                            name);
  }
  return 0;
}

}  // namespace

struct H5Reader::Impl {
  std::string path;
  int64_t file_bytes = 0;
  DriverFile driver;
  hid_t file = -1;
  std::string kept_name;
  std::optional<H5Handle> kept;  // of KeepOpen

  [[noreturn]] void Fail(const std::string& name,
                         const std::string& what) const {
    throw IoError(fmt::format("{}: {}: {}", path, name, what));
  }
  void Check(bool ok, const std::string& name, std::string_view what) const {
    if (ok) return;
    std::string reason = H5Reason();
    if (driver.error != 0) reason = std::strerror(driver.error);
    if (driver.ended_early) {
      reason = fmt::format("the file ends after {} bytes", file_bytes);
    }
    Fail(name, fmt::format("{}: {}; the file is damaged or incomplete", what,
                           reason));
  }

  htri_t Exists(const std::string& name) const;  // negative: damaged
  H5Handle OpenArray(const std::string& name) const;
  std::vector<int64_t> ShapeOf(const std::string& name, hid_t array,
                               int64_t* elements) const;
  void ReadBoxes(const std::string& name, int64_t offset, int64_t count,
                 bool (*fits)(hid_t), std::string_view expected,
                 hid_t memory_type, void* values) const;
};

htri_t H5Reader::Impl::Exists(const std::string& name) const {
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string prefix = name.substr(0, end);
    if (prefix.empty() || prefix == "/") return 0;
    const htri_t exists = H5Lexists(file, prefix.c_str(), H5P_DEFAULT);
    if (exists <= 0 || end == std::string::npos) return exists;
  }
}

H5Handle H5Reader::Impl::OpenArray(const std::string& name) const {
  const htri_t exists = Exists(name);
  Check(exists >= 0, name, "cannot be looked up");
  if (exists == 0) Fail(name, "found nothing of that name; expected an array");
  H5Handle array(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  Check(array.ok(), name, "cannot open the array");
  if (H5Iget_type(array) != H5I_DATASET) {
    Fail(name, "found a group; expected an array");
  }
  return array;
}

std::vector<int64_t> H5Reader::Impl::ShapeOf(const std::string& name,
                                             hid_t array,
                                             int64_t* elements) const {
  const H5Handle space(H5Dget_space(array), H5Sclose);
  const int rank = space.ok() ? H5Sget_simple_extent_ndims(space) : -1;
  Check(rank >= 0, name, "cannot read its shape");
  std::vector<hsize_t> dims(rank);
  Check(H5Sget_simple_extent_dims(space, dims.data(), nullptr) >= 0, name,
        "cannot read its shape");
  std::vector<int64_t> shape(dims.begin(), dims.end());
  if (!CountElements(shape, elements)) {
    Fail(name, fmt::format("found shape {}; expected fewer than 2^63 elements",
                           ShapeName(shape)));
  }
  if (H5Sget_simple_extent_type(space) == H5S_NULL) *elements = 0;
  return shape;
}

void H5Reader::Impl::ReadBoxes(const std::string& name, int64_t offset,
                               int64_t count, bool (*fits)(hid_t),
                               std::string_view expected, hid_t memory_type,
                               void* values) const {
  const H5Session session;
  std::optional<H5Handle> opened;
  if (!kept || name != kept_name) opened.emplace(OpenArray(name));
  const hid_t array = opened ? *opened : *kept;
  const H5Handle type(H5Dget_type(array), H5Tclose);
  Check(type.ok(), name, "cannot read its type");
  if (!fits(type)) {
    Fail(name,
         fmt::format("found {}; expected {}", FoundTypeName(type), expected));
  }
  int64_t elements = 0;
  const std::vector<int64_t> shape = ShapeOf(name, array, &elements);
  if (offset < 0 || offset > elements || count > elements - offset) {
    Fail(name,
         fmt::format("found {} elements ({}); expected {} from element {} on",
                     elements, ShapeName(shape), count, offset));
  }
  const H5Handle source(H5Dget_space(array), H5Sclose);
  const size_t width = H5Tget_size(memory_type);
  auto* next = static_cast<char*>(values);
  ForEachBox(shape, offset, count,
             [&](const std::vector<hsize_t>& start,
                 const std::vector<hsize_t>& extent, int64_t part) {
               const hsize_t size = static_cast<hsize_t>(part);
               const H5Handle target(H5Screate_simple(1, &size, nullptr),
                                     H5Sclose);
               const bool selected =
                   start.empty() ||
                   H5Sselect_hyperslab(source, H5S_SELECT_SET, start.data(),
                                       nullptr, extent.data(), nullptr) >= 0;
               Check(selected && H5Dread(array, memory_type, target, source,
                                         H5P_DEFAULT, next) >= 0,
                     name, "cannot read");
               next += size * width;
             });
}

H5Reader::H5Reader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->driver.descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (impl_->driver.descriptor < 0) {
    throw IoError(
        fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  }
  struct stat status;
  if (fstat(impl_->driver.descriptor, &status) != 0 ||
      !S_ISREG(status.st_mode)) {
    throw IoError(path + ": found no regular file; expected an HDF5 file");
  }
  impl_->file_bytes = status.st_size;
  const H5Session session;
  const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (access.ok() && SetDriver(access, &impl_->driver) >= 0) {
    impl_->file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  }
  impl_->Check(impl_->file >= 0, "/", "cannot be read as HDF5");
}

H5Reader::~H5Reader() {
  if (impl_->file < 0) return;
  const H5Session session;
  impl_->kept.reset();
  H5Fclose(impl_->file);
}

bool H5Reader::Has(const std::string& name) const {
  const H5Session session;
  if (impl_->Exists(name) <= 0) return false;
  const H5Handle object(H5Oopen(impl_->file, name.c_str(), H5P_DEFAULT),
                        H5Oclose);
  return object.ok() && H5Iget_type(object) == H5I_DATASET;
}

ArrayInfo H5Reader::Info(const std::string& name) const {
  const H5Session session;
  const H5Handle array = impl_->OpenArray(name);
  const H5Handle type(H5Dget_type(array), H5Tclose);
  impl_->Check(type.ok(), name, "cannot read its type");
  const std::optional<ElementType> element = ElementTypeOf(type);
  if (!element) {
    impl_->Fail(name, fmt::format("found {}; expected float32, float64, int32, "
                                  "int64 or uint8",
                                  FoundTypeName(type)));
  }
  int64_t elements = 0;
  return {name, *element, impl_->ShapeOf(name, array, &elements)};
}

std::vector<ArrayInfo> H5Reader::List() const {
  const H5Session session;
  std::vector<std::string> names;
  impl_->Check(H5Lvisit(impl_->file, H5_INDEX_NAME, H5_ITER_NATIVE,
                        CollectHardLinks, &names) >= 0,
               "/", "cannot list the arrays");
  std::ranges::sort(names);
  std::vector<ArrayInfo> result;
  for (const std::string& name : names) {
    const H5Handle object(H5Oopen(impl_->file, name.c_str(), H5P_DEFAULT),
                          H5Oclose);
    impl_->Check(object.ok(), name, "cannot open");
    if (H5Iget_type(object) != H5I_DATASET) continue;
    const H5Handle type(H5Dget_type(object), H5Tclose);
    impl_->Check(type.ok(), name, "cannot read its type");
    const std::optional<ElementType> element = ElementTypeOf(type);
    if (!element) continue;
    int64_t elements = 0;
    result.push_back({name, *element, impl_->ShapeOf(name, object, &elements)});
  }
  return result;
}

void H5Reader::Read(const std::string& name, int64_t offset,
                    std::span<float> values) const {
  impl_->ReadBoxes(name, offset, static_cast<int64_t>(values.size()), FitsFloat,
                   "float32 or an integer of at most 16 bits", H5T_NATIVE_FLOAT,
                   values.data());
}

void H5Reader::Read(const std::string& name, int64_t offset,
                    std::span<double> values) const {
  impl_->ReadBoxes(name, offset, static_cast<int64_t>(values.size()),
                   FitsDouble, "a float or an integer of at most 32 bits",
                   H5T_NATIVE_DOUBLE, values.data());
}

int64_t H5Reader::KeepOpen(const std::string& name) {
  const H5Session session;
  impl_->kept.reset();
  std::optional<H5Handle> array;
  array.emplace(impl_->OpenArray(name));
  const H5Handle type(H5Dget_type(*array), H5Tclose);
  const H5Handle list(H5Dget_create_plist(*array), H5Pclose);
  impl_->Check(type.ok() && list.ok(), name, "cannot read how it is stored");
  int64_t elements = 0;
  const std::vector<int64_t> shape = impl_->ShapeOf(name, *array, &elements);
  const H5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  impl_->Check(access.ok(), name, "cannot be opened again");
  int64_t bytes = 0;
  if (H5Pget_layout(list) == H5D_CHUNKED) {
    std::vector<hsize_t> sides(shape.size());
    impl_->Check(H5Pget_chunk(list, static_cast<int>(sides.size()),
                              sides.data()) == static_cast<int>(sides.size()),
                 name, "cannot read the size of its chunks");
    bytes = ChunkBytes(shape, sides, static_cast<int64_t>(H5Tget_size(type)));
    if (bytes > kMaxChunkBytes) {
      impl_->Fail(name, fmt::format("chunks of {} bytes for one sample; "
                                    "expected at most {}; store it in smaller "
                                    "chunks",
                                    bytes, kMaxChunkBytes));
    }
    impl_->Check(H5Pset_chunk_cache(access, kChunkSlots, bytes, 1) >= 0, name,
                 "cannot keep chunks");
  }
  array.reset();  // an array that is open already would keep its small cache
  H5Handle kept(H5Dopen(impl_->file, name.c_str(), access), H5Dclose);
  impl_->Check(kept.ok(), name, "cannot be opened again");
  impl_->kept.emplace(std::move(kept));
  impl_->kept_name = name;
  return bytes;
}

void H5Reader::Read(const std::string& name, int64_t offset,
                    std::span<int64_t> values) const {
  impl_->ReadBoxes(name, offset, static_cast<int64_t>(values.size()), FitsInt64,
                   "an integer that fits 64 signed bits", H5T_NATIVE_INT64,
                   values.data());
}

std::string H5Reader::ReadText(const std::string& name) const {
  const H5Session session;
  const H5Handle array = impl_->OpenArray(name);
  const H5Handle type(H5Dget_type(array), H5Tclose);
  impl_->Check(type.ok(), name, "cannot read its type");
  int64_t elements = 0;
  impl_->ShapeOf(name, array, &elements);
  if (H5Tget_class(type) != H5T_STRING || elements != 1) {
    impl_->Fail(name, fmt::format("found {} of {} elements; expected one text",
                                  FoundTypeName(type), elements));
  }
  if (H5Tis_variable_str(type) > 0) {  // what h5py writes for str
    char* text = nullptr;
    impl_->Check(
        H5Dread(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) >= 0, name,
        "cannot read");
    std::string result = text == nullptr ? "" : text;
    H5free_memory(text);
    return result;
  }
  const size_t size = H5Tget_size(type);
  if (size > static_cast<size_t>(impl_->file_bytes)) {
    impl_->Fail(name, fmt::format("promises {} bytes; the file has {}", size,
                                  impl_->file_bytes));
  }
  std::string text(size, '\0');
  impl_->Check(
      H5Dread(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) >= 0,
      name, "cannot read");
  const char pad = H5Tget_strpad(type) == H5T_STR_SPACEPAD ? ' ' : '\0';
  if (H5Tget_strpad(type) == H5T_STR_NULLTERM) {
    text.resize(std::min(text.size(), text.find('\0')));
  }
  while (!text.empty() && text.back() == pad) text.pop_back();
  return text;
}

}  // namespace lumen::data
