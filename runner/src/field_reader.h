#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "error.h"
#include "json.h"

namespace kz {

/// Reads the fields of a request header one by one and remembers the first thing wrong, so that parsing reads as a list. Every
/// field is required; `finish` also refuses fields nobody asked for. The header must outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(const Json& header);

  std::string text(const char* key, std::size_t max_bytes);
  bool flag(const char* key);
  /// Integer in [low, high].
  int64_t integer(const char* key, int64_t low, int64_t high);
  uint64_t unsigned_integer(const char* key);
  /// Finite number in [low, high].
  double number(const char* key, double low, double high);

  /// BadRequest for the first field that was missing, wrong or unknown.
  Status finish();

 private:
  const Json* member(const char* key);
  void fail(const char* key, const std::string& expected);

  const Json& header_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace kz
