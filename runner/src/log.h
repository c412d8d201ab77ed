#pragma once

#include <optional>
#include <string>

namespace kz {

enum class LogLevel { Error, Warning, Info, Debug };

/// The level of that name ("error", "warning", "info", "debug"), if there is one.
std::optional<LogLevel> log_level_of(const std::string& name);

/// Sets what `log_message` lets through. Not thread-safe: call it before anything logs.
void set_log_level(LogLevel level);

/// Writes one line to standard error if `level` is let through; formatted as by printf. Thread-safe.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void log_message(LogLevel level, const char* format, ...);

}  // namespace kz
