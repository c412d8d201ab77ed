#pragma once

#include <map>
#include <string>

#include "error.h"
#include "manifest.h"
#include "options.h"

namespace kz {

/// SHA-256 of the bundle's files that a role loads, by name. Reads all of them: a second or two for each gigabyte.
/// LoadFailed when one cannot be read.
Result<std::map<std::string, std::string>> hash_role_files(const Manifest& manifest, RoleName role);

}  // namespace kz
