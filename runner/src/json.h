#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kz {

/// Keeps keys in the order they are written, so that messages have one byte-exact form.
using Json = nlohmann::ordered_json;

/// Parses `text`; nothing when it is not JSON (numbers beyond double included). Never throws on bad input.
std::optional<Json> parse_json(const char* data, std::size_t size);

/// One line of JSON; bytes that are not UTF-8 are replaced.
std::string dump_json(const Json& json);

/// Member `key` of `object`, or null when `object` is no object or has no such member. Valid while `object` is unchanged.
const Json* find_member(const Json& object, const char* key);

/// The integer `json` holds, or nothing when it is of another type or does not fit.
std::optional<int64_t> as_int(const Json& json);
std::optional<uint64_t> as_uint(const Json& json);

/// The finite number `json` holds, or nothing.
std::optional<double> as_number(const Json& json);

}  // namespace kz
