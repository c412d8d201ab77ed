#include "role.h"

#include "decode_role.h"
#include "embed_role.h"
#include "generate_role.h"
#include "manifest.h"

namespace kz {

Result<std::unique_ptr<Role>> load_role(const Options& options) {
  KZ_TRY_ASSIGN(const Manifest manifest, Manifest::read(options.bundle));
  switch (options.role) {
    case RoleName::Generate:
      return GenerateRole::load(manifest);
    case RoleName::Decode:
      return DecodeRole::load(manifest);
    case RoleName::Embed:
      return EmbedRole::load(manifest);
  }
  return make_error(ErrorCode::BadUsage, "unknown role");
}

}  // namespace kz
