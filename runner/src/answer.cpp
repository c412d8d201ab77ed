#include "answer.h"

#include <cmath>
#include <cstdio>

namespace kz {
namespace {

constexpr std::size_t kIndexDigits = 20;

}  // namespace

double rounded_ms(double milliseconds) { return std::round(milliseconds * 1000.0) / 1000.0; }

std::string answer_line(const char* type, const std::string& id, const Json& fields, std::size_t payload_bytes) {
  Json line{{"type", type}, {"id", id}};
  for (const auto& [key, value] : fields.items()) {
    line[key] = value;
  }
  line["payload_bytes"] = payload_bytes;
  return dump_json(line) + "\n";
}

std::string error_line(const std::string& id, const Error& error) {
  return answer_line("error", id, Json{{"code", error_code_name(error.code)}, {"message", error.message}});
}

FrameLine::FrameLine(const std::string& id, std::size_t payload_bytes) {
  text_ = dump_json(Json{{"type", "frame"}, {"id", id}});
  text_.back() = ',';  // instead of the closing brace
  text_ += "\"index\":";
  fixed_bytes_ = text_.size();
  tail_ = ",\"payload_bytes\":" + std::to_string(payload_bytes) + "}\n";
  text_.reserve(fixed_bytes_ + kIndexDigits + tail_.size());
}

Span<const char> FrameLine::at(std::size_t index) {
  char digits[kIndexDigits + 1];
  const int length = std::snprintf(digits, sizeof digits, "%zu", index);
  text_.resize(fixed_bytes_);
  text_.append(digits, static_cast<std::size_t>(length));
  text_.append(tail_);
  return {text_.data(), text_.size()};
}

}  // namespace kz
