// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "data/npy.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

// Deflate cannot do better than 258 bytes for 2 bits: https://zlib.net,
// "Maximum Compression Factor". A larger promise is a lie.
constexpr uint64_t kMaxDeflateRatio = 1032;

struct Archive {
  std::string path;
  zip_t* zip = nullptr;

  explicit Archive(const std::string& file) : path(file) {
    int code = 0;
    zip = zip_open(file.c_str(), ZIP_RDONLY, &code);
    if (zip != nullptr) return;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    throw IoError(fmt::format("{}: cannot be read as .npz: {}", file, reason));
  }
  ~Archive() { zip_discard(zip); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
};

struct Member {
  zip_uint64_t index;
  std::string array;  // without ".npy"
  int64_t bytes;      // uncompressed
};

int64_t FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  return static_cast<int64_t>(file.tellg());
}

std::vector<Member> Members(const Archive& archive) {
  std::vector<Member> members;
  const auto file_bytes = static_cast<uint64_t>(FileBytes(archive.path));
  const zip_int64_t count = zip_get_num_entries(archive.zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t status;
    if (zip_stat_index(archive.zip, i, 0, &status) != 0 ||
        status.name == nullptr) {
      throw IoError(fmt::format("{}: member {}: {}", archive.path, i,
                                zip_strerror(archive.zip)));
    }
    const std::string name = status.name;
    if (!name.ends_with(".npy")) continue;
    if (status.comp_size > file_bytes ||
        status.size >
            std::max<uint64_t>(status.comp_size, 64) * kMaxDeflateRatio) {
      throw IoError(fmt::format(
          "{}: {}: promises {} bytes from {} compressed ones in a file of {}",
          archive.path, name, status.size, status.comp_size, file_bytes));
    }
    members.push_back({static_cast<zip_uint64_t>(i),
                       name.substr(0, name.size() - 4),
                       static_cast<int64_t>(status.size)});
  }
  return members;
}

// One open member. The CRC is checked when its end is reached.
class MemberReader {
 public:
  MemberReader(const Archive& archive, const Member& member)
      : name_(archive.path + ": " + member.array), bytes_(member.bytes) {
    file_ = zip_fopen_index(archive.zip, member.index, 0);
    if (file_ == nullptr) {
      throw IoError(fmt::format("{}: {}", name_, zip_strerror(archive.zip)));
    }
  }
  ~MemberReader() { zip_fclose(file_); }
  MemberReader(const MemberReader&) = delete;
  MemberReader& operator=(const MemberReader&) = delete;

  int64_t Read(char* out, int64_t bytes) {
    int64_t done = 0;
    while (done < bytes) {
      const zip_int64_t got =
          zip_fread(file_, out + done, static_cast<zip_uint64_t>(bytes - done));
      if (got < 0) {
        throw IoError(fmt::format("{}: {}; the archive is damaged", name_,
                                  zip_file_strerror(file_)));
      }
      if (got == 0) break;
      done += got;
    }
    return done;
  }
  NpyHeader ReadHeader() {
    return ReadNpyLayout(Source(), bytes_, name_).header;
  }
  NpyArray ReadArray() {
    const NpyLayout layout = ReadNpyLayout(Source(), bytes_, name_);
    NpyArray array = ReadNpyValues(Source(), layout, name_);
    char surplus;
    if (Read(&surplus, 1) != 0) {
      throw IoError(name_ + ": found bytes after the promised size");
    }
    return array;
  }

 private:
  ByteSource Source() {
    return [this](char* out, int64_t bytes) { return Read(out, bytes); };
  }

  std::string name_;
  int64_t bytes_;
  zip_file_t* file_;
};

// A plain .npy file.
class PlainReader {
 public:
  explicit PlainReader(const std::string& path)
      : path_(path), file_(path, std::ios::binary | std::ios::ate) {
    if (!file_ || file_.tellg() < 0) {
      throw IoError(path + ": cannot be opened for reading");
    }
    bytes_ = static_cast<int64_t>(file_.tellg());
    file_.seekg(0);
  }
  NpyLayout ReadLayout() { return ReadNpyLayout(Source(), bytes_, path_); }
  NpyArray ReadArray() {
    const NpyLayout layout = ReadLayout();
    return ReadNpyValues(Source(), layout, path_);
  }

 private:
  ByteSource Source() {
    return [this](char* out, int64_t bytes) {
      file_.read(out, bytes);
      if (file_.bad()) throw IoError(path_ + ": reading failed");
      return static_cast<int64_t>(file_.gcount());
    };
  }

  std::string path_;
  std::ifstream file_;
  int64_t bytes_ = 0;
};

struct Reference {
  std::string file;
  std::string array;  // "" when not named
  bool archive = false;
};

Reference Split(const std::string& reference) {
  const size_t colon = reference.rfind(".npz:");
  if (colon != std::string::npos) {
    return {reference.substr(0, colon + 4), reference.substr(colon + 5), true};
  }
  return {reference, "", reference.ends_with(".npz")};
}

Member FindMember(const Archive& archive, const std::string& array) {
  const std::vector<Member> members = Members(archive);
  std::string names;
  std::optional<Member> found;
  for (const Member& member : members) {
    names += (names.empty() ? "" : ", ") + member.array;
    if (!array.empty() ? member.array == array : members.size() == 1) {
      found = member;
    }
  }
  if (found) return *found;
  throw IoError(fmt::format(
      "{}: {}; expected one of its arrays, as in \"{}:NAME\"; it holds: {}",
      archive.path,
      array.empty() ? std::string("no array named")
                    : fmt::format("no array \"{}\"", array),
      archive.path, names.empty() ? "none" : names));
}

void Save(const std::string& path, const std::string& prefix,
          const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(prefix.data(), static_cast<std::streamsize>(prefix.size()));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw IoError(path + ": cannot be written; is the disk full?");
}

}  // namespace

NpyArray ReadNpy(const std::string& path) {
  return PlainReader(path).ReadArray();
}

std::map<std::string, NpyArray> ReadNpz(const std::string& path) {
  const Archive archive(path);
  std::map<std::string, NpyArray> arrays;
  for (const Member& member : Members(archive)) {
    const bool added =
        arrays
            .try_emplace(member.array,
                         MemberReader(archive, member).ReadArray())
            .second;
    if (!added) {
      throw IoError(fmt::format("{}: {}: found twice; expected once", path,
                                member.array));
    }
  }
  return arrays;
}

std::map<std::string, NpyHeader> ReadNpzHeaders(const std::string& path) {
  const Archive archive(path);
  std::map<std::string, NpyHeader> headers;
  for (const Member& member : Members(archive)) {
    headers[member.array] = MemberReader(archive, member).ReadHeader();
  }
  return headers;
}

std::string ReferencedFile(const std::string& reference) {
  return Split(reference).file;
}

NpyArray ReadArray(const std::string& reference) {
  const Reference split = Split(reference);
  if (!split.archive) return ReadNpy(split.file);
  const Archive archive(split.file);
  return MemberReader(archive, FindMember(archive, split.array)).ReadArray();
}

NpyHeader ReadArrayHeader(const std::string& reference) {
  const Reference split = Split(reference);
  if (!split.archive) return PlainReader(split.file).ReadLayout().header;
  const Archive archive(split.file);
  return MemberReader(archive, FindMember(archive, split.array)).ReadHeader();
}

void WriteNpy(const std::string& path, const NpyArray& array) {
  Save(path, NpyPrefix(array), array.bytes);
}

void WriteNpz(const std::string& path,
              const std::map<std::string, NpyArray>& arrays) {
  if (arrays.empty()) {
    throw IoError(path + ": no arrays; an .npz holds at least one");
  }
  int code = 0;
  std::unique_ptr<zip_t, void (*)(zip_t*)> zip(
      zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code), zip_discard);
  const auto check = [&](bool ok) {
    if (ok) return;
    throw IoError(fmt::format("{}: cannot be written: {}", path,
                              zip ? zip_strerror(zip.get()) : "not created"));
  };
  check(zip != nullptr);
  // libzip reads the sources when it closes.
  std::vector<std::string> prefixes;
  prefixes.reserve(arrays.size());
  for (const auto& [name, array] : arrays) {
    prefixes.push_back(NpyPrefix(array));
    zip_buffer_fragment_t parts[2];
    parts[0].data = reinterpret_cast<zip_uint8_t*>(prefixes.back().data());
    parts[0].length = prefixes.back().size();
    parts[1].data =
        reinterpret_cast<zip_uint8_t*>(const_cast<char*>(array.bytes.data()));
    parts[1].length = array.bytes.size();
    zip_source_t* source = zip_source_buffer_fragment(zip.get(), parts, 2, 0);
    check(source != nullptr);
    const zip_int64_t index = zip_file_add(zip.get(), (name + ".npy").c_str(),
                                           source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source);
    check(index >= 0 &&
          zip_set_file_compression(zip.get(), index, ZIP_CM_STORE, 0) == 0 &&
          // A fixed time: equal arrays give equal bytes.
          zip_file_set_dostime(zip.get(), index, 0, 0x21, 0) == 0);
  }
  check(zip_close(zip.get()) == 0);
  zip.release();  // zip_close freed it
}

}  // namespace lumen::data
