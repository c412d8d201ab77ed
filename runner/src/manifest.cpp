#include "manifest.h"

#include <utility>

#include "contract.h"
#include "json.h"
#include "mapped_file.h"

namespace kz {
namespace {

constexpr int64_t kMaxTableSize = int64_t{1} << 24;  // rows of a group, or elements of a row

Error damaged(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::LoadFailed, "%s is damaged: %s; export the checkpoint again with kz export", path.c_str(),
                    what.c_str());
}

/// A manifest cannot reach outside its folder: no absolute names, no `..`.
bool is_inside_folder(const std::string& name) {
  const std::string bounded = "/" + name + "/";
  return !name.empty() && name.front() != '/' && bounded.find("/../") == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::optional<std::string> file_name(const Json& object, const char* key) {
  const Json* member = find_member(object, key);
  if (member == nullptr || !member->is_string() || !is_inside_folder(member->get<std::string>())) {
    return std::nullopt;
  }
  return member->get<std::string>();
}

std::optional<int64_t> count_in(const Json& object, const char* key, int64_t high) {
  const Json* member = find_member(object, key);
  const auto value = member != nullptr ? as_int(*member) : std::nullopt;
  return value.has_value() && *value >= 0 && *value <= high ? value : std::nullopt;
}

std::optional<CodecEmbeddings::Layout> read_layout(const Json& table) {
  CodecEmbeddings::Layout layout;
  const Json* dtype = find_member(table, "dtype");
  const Json* rows = find_member(table, "rows");
  const auto width = count_in(table, "width", kMaxTableSize);
  if (dtype == nullptr || rows == nullptr || !rows->is_array() || !width.has_value() || (*dtype != "f32" && *dtype != "f16")) {
    return std::nullopt;
  }
  layout.type = *dtype == "f32" ? TableType::Float32 : TableType::Float16;
  layout.width = *width;
  for (const Json& group : *rows) {
    const auto count = as_int(group);
    if (!count.has_value() || *count < 0 || *count > kMaxTableSize) {
      return std::nullopt;
    }
    layout.rows.push_back(*count);
  }
  return layout;
}

Status check_versions(const Json& json, const std::string& path) {
  const Json* version = find_member(json, "contract");
  if (version == nullptr || as_int(*version) != contract::kBundleVersion) {
    return make_error(ErrorCode::LoadFailed,
                      "%s has contract %s, this runner needs %lld; export the checkpoint again with kz export", path.c_str(),
                      version != nullptr ? dump_json(*version).c_str() : "none",
                      static_cast<long long>(contract::kBundleVersion));
  }
  const Json* executorch = find_member(json, "executorch");
  if (executorch == nullptr || *executorch != KZ_EXECUTORCH_VERSION) {
    return make_error(ErrorCode::LoadFailed,
                      "%s was made for ExecuTorch %s, this runner has %s; export the checkpoint again with kz export",
                      path.c_str(), executorch != nullptr ? dump_json(*executorch).c_str() : "none", KZ_EXECUTORCH_VERSION);
  }
  return {};
}

}  // namespace

/// The parsed document and its path, for messages.
class ManifestReader {
 public:
  ManifestReader(Json json, std::string path) : json_(std::move(json)), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const Json& json() const { return json_; }

  /// Member `key`, which must be an object (or an array).
  Result<const Json*> section(const char* key, bool array = false) const {
    const Json* member = find_member(json_, key);
    if (member == nullptr || !(array ? member->is_array() : member->is_object())) {
      return damaged(path_, std::string("no usable ") + key);
    }
    return member;
  }

 private:
  Json json_;
  std::string path_;
};

Result<Manifest> Manifest::read(const std::string& folder) {
  const std::string path = folder + "/" + contract::kManifestFile;
  auto file = MappedFile::open(path);
  if (!file.ok()) {
    return make_error(ErrorCode::LoadFailed, "%s is not a bundle: its %s is missing or empty; make one with kz export",
                      folder.c_str(), contract::kManifestFile);
  }
  const auto bytes = file.value().bytes();
  auto json = parse_json(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!json.has_value() || !json->is_object()) {
    return damaged(path, "it is not JSON");
  }
  KZ_TRY(check_versions(*json, path));
  Manifest manifest;
  manifest.folder_ = folder;
  KZ_TRY(manifest.fill(ManifestReader(std::move(*json), path)));
  return manifest;
}

Status Manifest::fill(const ManifestReader& reader) {
  KZ_TRY_ASSIGN(const Json* model, reader.section("model"));
  KZ_TRY_ASSIGN(const Json* programs, reader.section("programs"));
  KZ_TRY_ASSIGN(const Json* tables, reader.section("tables"));
  KZ_TRY_ASSIGN(const Json* files, reader.section("files", true));
  for (const auto& [key, value] : model->items()) {
    if (const auto number = as_int(value); number.has_value()) {
      sizes_[key] = *number;
    }
  }
  for (const auto& [key, value] : programs->items()) {
    const auto file = file_name(value, "file");
    if (!file.has_value()) {
      return damaged(reader.path(), "program " + key + " has no usable file");
    }
    programs_[key] = *file;
  }
  for (const auto& [key, value] : tables->items()) {
    const auto file = file_name(value, "file");
    auto layout = read_layout(value);
    if (!file.has_value() || !layout.has_value()) {
      return damaged(reader.path(), "table " + key + " is not described properly");
    }
    tables_[key] = Table{*file, std::move(*layout)};
  }
  for (const Json& value : *files) {
    const auto name = file_name(value, "name");
    const auto bytes = count_in(value, "bytes", INT64_MAX);
    if (!name.has_value() || !bytes.has_value()) {
      return damaged(reader.path(), "an entry of files has no usable name or bytes");
    }
    file_bytes_[*name] = static_cast<uint64_t>(*bytes);
  }
  return {};
}

Result<Manifest::FileEntry> Manifest::program(const std::string& name) const {
  const auto found = programs_.find(name);
  if (found == programs_.end()) {
    return make_error(ErrorCode::LoadFailed, "%s has no %s; use a bundle exported from a checkpoint that has one",
                      folder_.c_str(), name.c_str());
  }
  return entry(found->second);
}

Result<Manifest::FileEntry> Manifest::table(const std::string& name) const {
  const auto found = tables_.find(name);
  if (found == tables_.end()) {
    return damaged(folder_ + "/" + contract::kManifestFile, "it lists no table " + name);
  }
  return entry(found->second.file);
}

Result<CodecEmbeddings::Layout> Manifest::table_layout(const std::string& name) const {
  const auto found = tables_.find(name);
  if (found == tables_.end()) {
    return damaged(folder_ + "/" + contract::kManifestFile, "it lists no table " + name);
  }
  return found->second.layout;
}

Status Manifest::expect_size(const char* key, std::size_t actual) const {
  const auto found = sizes_.find(key);
  if (found == sizes_.end() || found->second != static_cast<int64_t>(actual)) {
    return make_error(
        ErrorCode::LoadFailed,
        "%s says %s is %s, its program says %zu: they come from two exports; export the checkpoint again with kz export",
        folder_.c_str(), key, found == sizes_.end() ? "missing" : std::to_string(found->second).c_str(), actual);
  }
  return {};
}

Result<Manifest::FileEntry> Manifest::entry(const std::string& file) const {
  const auto found = file_bytes_.find(file);
  if (found == file_bytes_.end()) {
    return damaged(folder_ + "/" + contract::kManifestFile, "it does not list the file " + file);
  }
  return FileEntry{file, folder_ + "/" + file, found->second};
}

}  // namespace kz
