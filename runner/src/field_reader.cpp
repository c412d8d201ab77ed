#include "field_reader.h"

#include <algorithm>
#include <cstdio>

namespace kz {
namespace {

std::string shortest(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

FieldReader::FieldReader(const Json& header) : header_(header), known_{"type", "payload_bytes"} {}

std::string FieldReader::text(const char* key, std::size_t max_bytes) {
  const Json* field = member(key);
  if (field == nullptr || !field->is_string() || field->get_ref<const std::string&>().size() > max_bytes) {
    fail(key, "a string of at most " + std::to_string(max_bytes) + " bytes");
    return {};
  }
  return field->get<std::string>();
}

bool FieldReader::flag(const char* key) {
  const Json* field = member(key);
  if (field == nullptr || !field->is_boolean()) {
    fail(key, "true or false");
    return false;
  }
  return field->get<bool>();
}

int64_t FieldReader::integer(const char* key, int64_t low, int64_t high) {
  const Json* field = member(key);
  const auto value = field != nullptr ? as_int(*field) : std::nullopt;
  if (!value.has_value() || *value < low || *value > high) {
    fail(key, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return low;
  }
  return *value;
}

uint64_t FieldReader::unsigned_integer(const char* key) {
  const Json* field = member(key);
  const auto value = field != nullptr ? as_uint(*field) : std::nullopt;
  if (!value.has_value()) {
    fail(key, "an integer from 0 to " + std::to_string(UINT64_MAX));
    return 0;
  }
  return *value;
}

double FieldReader::number(const char* key, double low, double high) {
  const Json* field = member(key);
  const auto value = field != nullptr ? as_number(*field) : std::nullopt;
  if (!value.has_value() || *value < low || *value > high) {
    fail(key, "a number from " + shortest(low) + " to " + shortest(high));
    return low;
  }
  return *value;
}

Status FieldReader::finish() {
  if (error_.has_value()) {
    return *error_;
  }
  for (const auto& [key, value] : header_.items()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      return make_error(ErrorCode::BadRequest, "field %.100s is unknown; PROTOCOL.md lists the fields of each message",
                        key.c_str());
    }
  }
  return {};
}

const Json* FieldReader::member(const char* key) {
  known_.emplace_back(key);
  return find_member(header_, key);
}

void FieldReader::fail(const char* key, const std::string& expected) {
  if (!error_.has_value()) {
    error_ = make_error(ErrorCode::BadRequest, "field %s must be %s", key, expected.c_str());
  }
}

}  // namespace kz
