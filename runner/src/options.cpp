#include "options.h"

#include <cstdlib>

namespace kz {
namespace {

constexpr unsigned long kMaxThreads = 256;

Error unknown_value(const std::string& option, const std::string& value, const char* choices) {
  return make_error(ErrorCode::BadUsage, "%s does not take \"%.100s\"; use %s", option.c_str(), value.c_str(), choices);
}

Status set_role(const std::string& value, Options& options) {
  for (const RoleName role : {RoleName::Generate, RoleName::Decode, RoleName::Embed}) {
    if (value == role_name(role)) {
      options.role = role;
      return {};
    }
  }
  return unknown_value("--role", value, "generate, decode or embed");
}

Status set_threads(const std::string& value, Options& options) {
  char* end = nullptr;
  const bool has_digit_first = !value.empty() && value[0] >= '0' && value[0] <= '9';
  const unsigned long threads = has_digit_first ? std::strtoul(value.c_str(), &end, 10) : 0;
  if (threads < 1 || threads > kMaxThreads || *end != '\0') {
    return unknown_value("--threads", value, "a number from 1 to 256");
  }
  options.threads = static_cast<unsigned>(threads);
  return {};
}

Status set_log_level(const std::string& value, Options& options) {
  const auto level = log_level_of(value);
  if (!level.has_value()) {
    return unknown_value("--log-level", value, "error, warning, info or debug");
  }
  options.log_level = *level;
  return {};
}

Status set_option(const std::string& option, const std::string& value, Options& options) {
  if (option == "--bundle") {
    options.bundle = value;
    return {};
  }
  if (option == "--role") {
    return set_role(value, options);
  }
  if (option == "--threads") {
    return set_threads(value, options);
  }
  return set_log_level(value, options);
}

bool takes_value(const std::string& option) {
  return option == "--bundle" || option == "--role" || option == "--threads" || option == "--log-level";
}

}  // namespace

const char kUsage[] =
    "kz_runner --bundle DIR --role generate|decode|embed [--threads N] [--hash-files] [--log-level L]\n"
    "kz_runner --version\n"
    "\n"
    "Runs the programs of a bundle for a client on standard input and output (runner/PROTOCOL.md).\n"
    "  --bundle DIR     folder that kz export wrote\n"
    "  --role ROLE      generate: codes from prompts; decode: sound from codes; embed: voices from mels\n"
    "  --threads N      1 to 256; default: one for each performance core\n"
    "  --hash-files     tell the SHA-256 of every file that was loaded\n"
    "  --log-level L    what goes to standard error: error, warning (default), info or debug\n"
    "  --version        versions and backends as one line of JSON\n";

const char* role_name(RoleName role) {
  switch (role) {
    case RoleName::Generate:
      return "generate";
    case RoleName::Decode:
      return "decode";
    case RoleName::Embed:
      return "embed";
  }
  return "unknown";
}

Result<Options> parse_options(Span<char* const> arguments) {
  Options options;
  bool has_role = false;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string option = arguments[index];
    if (option == "--version") {
      options.show_version = true;
    } else if (option == "--help") {
      options.show_help = true;
    } else if (option == "--hash-files") {
      options.hash_files = true;
    } else if (!takes_value(option)) {
      return make_error(ErrorCode::BadUsage, "unknown option %.100s; kz_runner --help lists them", option.c_str());
    } else if (++index == arguments.size()) {
      return make_error(ErrorCode::BadUsage, "%s needs a value; kz_runner --help shows how", option.c_str());
    } else {
      KZ_TRY(set_option(option, arguments[index], options));
      has_role = has_role || option == "--role";
    }
  }
  const bool is_complete = options.show_version || options.show_help || (has_role && !options.bundle.empty());
  if (!is_complete) {
    return make_error(ErrorCode::BadUsage, "--bundle and --role are needed; kz_runner --help shows how");
  }
  return options;
}

}  // namespace kz
