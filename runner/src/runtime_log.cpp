#include "runtime_log.h"

#include <executorch/runtime/platform/platform.h>

#include "log.h"

namespace kz {
namespace {

/// The runtime calls an error what callers may recover from, and so do we: only a fatal one is shown unasked.
LogLevel level_of(et_pal_log_level_t level) {
  switch (level) {
    case kFatal:
      return LogLevel::Error;
    case kError:
      return LogLevel::Info;
    default:
      return LogLevel::Debug;
  }
}

void emit(et_timestamp_t, et_pal_log_level_t level, const char* filename, const char*, size_t line, const char* message,
          size_t length) {
  log_message(level_of(level), "executorch: %.*s (%s:%zu)", static_cast<int>(length), message, filename, line);
}

}  // namespace

void route_runtime_log() {
  if (!executorch::runtime::register_pal(executorch::runtime::PalImpl::create(emit, __FILE__))) {
    log_message(LogLevel::Warning, "ExecuTorch keeps its own log");
  }
}

}  // namespace kz
