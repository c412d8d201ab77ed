#include "log.h"

#include <cstdarg>
#include <cstdio>

namespace kz {
namespace {

LogLevel visible_level = LogLevel::Warning;

constexpr const char* kNames[] = {"error", "warning", "info", "debug"};

}  // namespace

std::optional<LogLevel> log_level_of(const std::string& name) {
  for (int level = 0; level < 4; ++level) {
    if (name == kNames[level]) {
      return static_cast<LogLevel>(level);
    }
  }
  return std::nullopt;
}

void set_log_level(LogLevel level) { visible_level = level; }

void log_message(LogLevel level, const char* format, ...) {
  if (level > visible_level) {
    return;
  }
  char text[2000];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "kz_runner: %s: %s\n", kNames[static_cast<int>(level)], text);
}

}  // namespace kz
