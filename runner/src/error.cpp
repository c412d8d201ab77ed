#include "error.h"

#include <cstdarg>
#include <cstdio>

namespace kz {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadRequest:
    case ErrorCode::BadStream:
      return "bad_request";
    case ErrorCode::BadPayload:
      return "bad_payload";
    case ErrorCode::TooLong:
      return "too_long";
    case ErrorCode::NonFiniteLogits:
      return "non_finite_logits";
    case ErrorCode::NonFiniteAudio:
      return "non_finite_audio";
    case ErrorCode::NonFiniteEmbedding:
      return "non_finite_embedding";
    case ErrorCode::ExecutionFailed:
      return "execution_failed";
    case ErrorCode::LoadFailed:
      return "load_failed";
    case ErrorCode::BadUsage:
      return "bad_usage";
    case ErrorCode::StreamClosed:
      return "stream_closed";
  }
  return "unknown";
}

Error make_error(ErrorCode code, const char* format, ...) {
  char text[2000];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return Error{code, text};
}

}  // namespace kz
