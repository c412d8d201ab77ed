#include "program.h"

#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "contract.h"
#include "mapped_file.h"
#include "program_method.h"

namespace kz {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::extension::MmapDataLoader;

constexpr char kXnnpackBackend[] = "XnnpackBackend";

Error foreign_file(const std::string& path, const char* reason) {
  return make_error(ErrorCode::LoadFailed, "%s %s; export the checkpoint again with kz export", path.c_str(), reason);
}

/// Looks at size and identifier only, so that damage is named before the runtime trips over it.
Status check_file(const std::string& path, uint64_t expected_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return foreign_file(path, "cannot be read");
  }
  char head[et::Program::kMinHeadBytes] = {};
  const std::size_t head_bytes = std::fread(head, 1, sizeof head, file);
  struct stat status{};
  const bool has_status = ::fstat(::fileno(file), &status) == 0;
  std::fclose(file);
  if (head_bytes == 0) {
    return foreign_file(path, "is empty");
  }
  if (head_bytes < sizeof head || std::memcmp(head + 4, "ET", 2) != 0) {
    return foreign_file(path, "is not an ExecuTorch program");
  }
  if (et::Program::check_header(head, sizeof head) != et::Program::HeaderStatus::CompatibleVersion) {
    return foreign_file(path, "was made for another version of ExecuTorch");
  }
  if (has_status && static_cast<uint64_t>(status.st_size) != expected_bytes) {
    return wrong_size(path, static_cast<uint64_t>(status.st_size), expected_bytes);
  }
  return {};
}

std::string backend_alias(const char* registered_name) {
  std::string name = registered_name;
  const std::size_t suffix = name.rfind("Backend");
  if (suffix != std::string::npos) {
    name.resize(suffix);
  }
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return name;
}

}  // namespace

struct Program::File {
  File(std::string file_path, MmapDataLoader file_loader) : path(std::move(file_path)), loader(std::move(file_loader)) {}

  std::string path;
  MmapDataLoader loader;
  std::unique_ptr<et::Program> program;
};

Result<Program> Program::open(const std::string& path, uint64_t expected_bytes) {
  KZ_TRY(check_file(path, expected_bytes));
  et::runtime_init();
  auto loader = MmapDataLoader::from(path.c_str(), MmapDataLoader::MlockConfig::NoMlock);
  if (!loader.ok()) {
    return foreign_file(path, "cannot be mapped");
  }
  auto file = std::make_shared<File>(path, std::move(loader.get()));
  auto program = et::Program::load(&file->loader, et::Program::Verification::InternalConsistency);
  if (!program.ok()) {
    return make_error(ErrorCode::LoadFailed, "%s cannot be loaded (%s); export the checkpoint again with kz export", path.c_str(),
                      et::to_string(program.error()));
  }
  file->program = std::make_unique<et::Program>(std::move(program.get()));
  Program opened(std::move(file));
  const auto version = opened.read_int("contract_version");
  if (!version.ok() || version.value() != contract::kBundleVersion) {
    return make_error(ErrorCode::LoadFailed,
                      "%s has contract %s, this runner needs %lld; export the checkpoint again with kz export", path.c_str(),
                      version.ok() ? std::to_string(version.value()).c_str() : "none",
                      static_cast<long long>(contract::kBundleVersion));
  }
  return opened;
}

Program::Program(std::shared_ptr<const File> file) : file_(std::move(file)) {}

Result<int64_t> Program::read_int(const char* name) const {
  KZ_TRY_ASSIGN(const et::EValue value, read_constant(*file_->program, file_->path, name));
  if (!value.isInt()) {
    return make_error(ErrorCode::LoadFailed, "constant %s of %s is not an integer; export the checkpoint again with kz export",
                      name, file_->path.c_str());
  }
  return value.toInt();
}

Result<int64_t> Program::read_int(const char* name, int64_t low, int64_t high) const {
  KZ_TRY_ASSIGN(const int64_t value, read_int(name));
  if (value < low || value > high) {
    return make_error(
        ErrorCode::LoadFailed, "constant %s of %s is %lld, outside %lld to %lld; export the checkpoint again with kz export",
        name, file_->path.c_str(), static_cast<long long>(value), static_cast<long long>(low), static_cast<long long>(high));
  }
  return value;
}

Result<double> Program::read_double(const char* name) const {
  KZ_TRY_ASSIGN(const et::EValue value, read_constant(*file_->program, file_->path, name));
  if (!value.isDouble()) {
    return make_error(ErrorCode::LoadFailed, "constant %s of %s is not a number; export the checkpoint again with kz export",
                      name, file_->path.c_str());
  }
  return value.toDouble();
}

bool Program::has_method(const char* name) const { return file_->program->method_meta(name).ok(); }

Result<std::unique_ptr<Method>> Program::load_method(const std::string& name) const {
  et::BackendOptions<1> xnnpack;
  et::LoadBackendOptionsMap options;
  const bool set = xnnpack.set_option("weight_cache_enabled", true) == et::Error::Ok &&
                   options.set_options(kXnnpackBackend, xnnpack.view()) == et::Error::Ok;
  return ProgramMethod::load(file_, *file_->program, file_->path, name, set ? &options : nullptr);
}

const std::string& Program::path() const { return file_->path; }

std::vector<std::string> Program::backends() const {
  std::vector<std::string> names;
  for (std::size_t index = 0; index < file_->program->num_methods(); ++index) {
    const auto method = file_->program->get_method_name(index);
    const auto meta = method.ok() ? file_->program->method_meta(method.get()) : et::Result<et::MethodMeta>(method.error());
    for (std::size_t used = 0; meta.ok() && used < meta->num_backends(); ++used) {
      const auto backend = meta->get_backend_name(used);
      if (backend.ok() && std::find(names.begin(), names.end(), backend_alias(backend.get())) == names.end()) {
        names.push_back(backend_alias(backend.get()));
      }
    }
  }
  return names;
}

std::vector<std::string> registered_backends() {
  std::vector<std::string> names;
  for (std::size_t index = 0; index < et::get_num_registered_backends(); ++index) {
    const auto name = et::get_backend_name(index);
    if (name.ok()) {
      names.push_back(backend_alias(name.get()));
    }
  }
  return names;
}

}  // namespace kz
