#include "json.h"

#include <cmath>

namespace kz {

std::optional<Json> parse_json(const char* data, std::size_t size) {
  constexpr bool kAllowExceptions = false;
  Json json = Json::parse(data, data + size, nullptr, kAllowExceptions);
  if (json.is_discarded()) {
    return std::nullopt;
  }
  return json;
}

std::string dump_json(const Json& json) {
  constexpr int kOneLine = -1;
  constexpr bool kKeepUnicode = false;
  return json.dump(kOneLine, ' ', kKeepUnicode, Json::error_handler_t::replace);
}

const Json* find_member(const Json& object, const char* key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto member = object.find(key);
  return member == object.end() ? nullptr : &*member;
}

std::optional<int64_t> as_int(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    return value <= static_cast<uint64_t>(INT64_MAX) ? std::optional<int64_t>(static_cast<int64_t>(value)) : std::nullopt;
  }
  return json.is_number_integer() ? std::optional<int64_t>(json.get<int64_t>()) : std::nullopt;
}

std::optional<uint64_t> as_uint(const Json& json) {
  return json.is_number_unsigned() ? std::optional<uint64_t>(json.get<uint64_t>()) : std::nullopt;
}

std::optional<double> as_number(const Json& json) {
  if (!json.is_number() || !std::isfinite(json.get<double>())) {
    return std::nullopt;
  }
  return json.get<double>();
}

}  // namespace kz
