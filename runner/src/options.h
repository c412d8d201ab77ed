#pragma once

#include <optional>
#include <string>

#include "error.h"
#include "log.h"
#include "span.h"

namespace kz {

enum class RoleName { Generate, Decode, Embed };

/// The value of --role; a string literal.
const char* role_name(RoleName role);

/// The command line of kz_runner.
struct Options {
  bool show_version = false;
  bool show_help = false;
  std::string bundle;  ///< folder of manifest.json
  RoleName role = RoleName::Generate;
  bool hash_files = false;  ///< say in `ready` what was loaded
  std::optional<unsigned> threads;  ///< unset: one a performance core
  LogLevel log_level = LogLevel::Warning;
};

/// BadUsage for an unknown option, a missing or malformed value, or a missing --bundle or --role.
Result<Options> parse_options(Span<char* const> arguments);

/// What --help prints.
extern const char kUsage[];

}  // namespace kz
