#include "file_hashes.h"

#include <vector>

#include "contract.h"
#include "mapped_file.h"
#include "sha256.h"

namespace kz {
namespace {

/// With those that not every bundle has.
std::vector<const char*> role_programs(RoleName role) {
  switch (role) {
    case RoleName::Generate:
      return {contract::kTalker, contract::kCodePredictor, contract::kCodePredictorSteps};
    case RoleName::Decode:
      return {contract::kSpeechDecoder, contract::kSpeechDecoderNpu};
    case RoleName::Embed:
      return {contract::kSpeakerEncoder};
  }
  return {};
}

Result<std::string> hash_file(const std::string& path) {
  KZ_TRY_ASSIGN(const MappedFile file, MappedFile::open(path));
  Sha256 digest;
  digest.update(file.bytes());
  return digest.finish();
}

}  // namespace

Result<std::map<std::string, std::string>> hash_role_files(const Manifest& manifest, RoleName role) {
  std::vector<Manifest::FileEntry> files;
  for (const char* name : role_programs(role)) {
    const bool is_optional = name == contract::kCodePredictorSteps || name == contract::kSpeechDecoderNpu;
    if (is_optional && !manifest.has_program(name)) {
      continue;
    }
    KZ_TRY_ASSIGN(const Manifest::FileEntry file, manifest.program(name));
    files.push_back(file);
  }
  if (role == RoleName::Generate) {
    KZ_TRY_ASSIGN(const Manifest::FileEntry file, manifest.table(contract::kCodecEmbeddings));
    files.push_back(file);
  }
  std::map<std::string, std::string> hashes;
  for (const Manifest::FileEntry& file : files) {
    KZ_TRY_ASSIGN(hashes[file.name], hash_file(file.path));
  }
  return hashes;
}

}  // namespace kz
