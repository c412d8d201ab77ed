#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "error.h"
#include "json.h"
#include "span.h"

namespace kz {

/// Milliseconds as messages carry them: to the microsecond.
double rounded_ms(double milliseconds);

/// The line of an answer of `type` to request `id`: these two, then `fields`, then payload_bytes.
std::string answer_line(const char* type, const std::string& id, const Json& fields, std::size_t payload_bytes = 0);

/// The line of an error answer; `id` is empty when no request is to blame.
std::string error_line(const std::string& id, const Error& error);

/// Writes the lines of a request's frames without allocating.
class FrameLine {
 public:
  FrameLine(const std::string& id, std::size_t payload_bytes);

  /// The line of frame `index`; valid until the next call.
  Span<const char> at(std::size_t index);

 private:
  std::string text_;  ///< everything up to the index, then what changes
  std::size_t fixed_bytes_;
  std::string tail_;
};

}  // namespace kz
