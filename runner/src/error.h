#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace kz {

/// What went wrong. PROTOCOL.md lists what reaches the client, and how.
enum class ErrorCode {
  BadRequest,
  BadPayload,
  TooLong,
  NonFiniteLogits,
  NonFiniteAudio,
  NonFiniteEmbedding,
  ExecutionFailed,
  LoadFailed,
  BadUsage,      ///< wrong command line
  BadStream,     ///< stdin is not a sequence of messages: fatal, but `bad_request` to the client
  StreamClosed,  ///< nobody reads stdout any more
};

/// The protocol's name of `code`; a string literal.
const char* error_code_name(ErrorCode code);

/// A failure on its way up. `message` is one line: what failed, and what to do next.
struct Error {
  ErrorCode code;
  std::string message;
};

/// A value, or why there is none. Ask `ok()` before `value()` or `error()`.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return content_.index() == 0; }
  T& value() { return *std::get_if<0>(&content_); }
  const T& value() const { return *std::get_if<0>(&content_); }
  Error& error() { return *std::get_if<1>(&content_); }
  const Error& error() const { return *std::get_if<1>(&content_); }

 private:
  std::variant<T, Error> content_;
};

/// Success, or why there is none.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

/// An `Error` whose message is formatted as by printf. The formatted part is cut at 2,000 bytes.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Error make_error(ErrorCode code, const char* format, ...);

}  // namespace kz

#define KZ_CONCAT_INNER(a, b) a##b
#define KZ_CONCAT(a, b) KZ_CONCAT_INNER(a, b)

/// Returns from the calling function with the error of `expression`, a Status, if it failed.
#define KZ_TRY(expression)                 \
  do {                                     \
    auto kz_status = (expression);         \
    if (!kz_status.ok()) {                 \
      return std::move(kz_status.error()); \
    }                                      \
  } while (false)

/// Declares or assigns `target` from `expression`, a Result; returns its error from the calling function if it failed.
#define KZ_TRY_ASSIGN(target, expression) KZ_TRY_ASSIGN_AS(KZ_CONCAT(kz_result_, __LINE__), target, expression)
#define KZ_TRY_ASSIGN_AS(result, target, expression) \
  auto result = (expression);                        \
  if (!result.ok()) {                                \
    return std::move(result.error());                \
  }                                                  \
  target = std::move(result.value())
