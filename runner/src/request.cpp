#include "request.h"

#include <cmath>
#include <cstring>

#include "contract.h"
#include "field_reader.h"

namespace kz {
namespace {

constexpr int64_t kMaxCount = INT32_MAX;
/// A colder draw is a greedy one, and dividing by less could overflow.
constexpr double kMinTemperature = 1e-4;
constexpr double kMaxFactor = 1e6;

Error wrong_payload(std::size_t actual, std::size_t expected) {
  return make_error(ErrorCode::BadPayload, "the payload has %zu bytes, the header's sizes make %zu; send both alike", actual,
                    expected);
}

/// `count` elements from `offset` bytes into the payload.
template <typename T>
std::vector<T> take_elements(const std::vector<uint8_t>& payload, std::size_t offset, std::size_t count) {
  std::vector<T> elements(count);
  if (count > 0) {
    std::memcpy(elements.data(), payload.data() + offset, count * sizeof(T));
  }
  return elements;
}

Status expect_finite(const char* name, const std::vector<float>& rows, std::size_t width) {
  const std::size_t index = first_non_finite(rows);
  if (index < rows.size()) {
    return make_error(ErrorCode::BadPayload, "row %zu of %s holds a number that is not finite; check the voice and the tables",
                      index / width, name);
  }
  return {};
}

/// `prefix`: "" for the talker, "predictor_" for the code predictor.
SamplingOptions read_sampling(FieldReader& fields, const std::string& prefix) {
  SamplingOptions options;
  options.greedy = fields.flag((prefix + "greedy").c_str());
  options.temperature = fields.number((prefix + "temperature").c_str(), options.greedy ? 0.0 : kMinTemperature, kMaxFactor);
  options.top_k = fields.integer((prefix + "top_k").c_str(), 0, kMaxCount);
  options.top_p = fields.number((prefix + "top_p").c_str(), 0.0, 1.0);
  return options;
}

}  // namespace

Result<GenerateRequest> parse_generate(const Message& message) {
  FieldReader fields(message.header);
  GenerateRequest request;
  request.id = fields.text("id", contract::kMaxIdBytes);
  const auto prompt_tokens = static_cast<std::size_t>(fields.integer("prompt_tokens", 1, kMaxCount));
  const auto trailing_tokens = static_cast<std::size_t>(fields.integer("trailing_tokens", 0, kMaxCount));
  request.hidden_size = static_cast<std::size_t>(fields.integer("hidden_size", 1, 1 << 20));
  request.seed = fields.unsigned_integer("seed");
  request.max_frames = fields.integer("max_frames", 1, kMaxCount);
  request.min_frames = fields.integer("min_frames", 0, kMaxCount);
  request.talker = read_sampling(fields, "");
  request.repetition_penalty = fields.number("repetition_penalty", kMinTemperature, kMaxFactor);
  request.predictor = read_sampling(fields, "predictor_");
  KZ_TRY(fields.finish());

  const std::size_t width = request.hidden_size;
  const std::size_t expected = (prompt_tokens + trailing_tokens + 1) * width * sizeof(float);
  if (message.payload.size() != expected) {
    return wrong_payload(message.payload.size(), expected);
  }
  const std::size_t trailing_at = prompt_tokens * width * sizeof(float);
  const std::size_t pad_at = trailing_at + trailing_tokens * width * sizeof(float);
  request.prompt = take_elements<float>(message.payload, 0, prompt_tokens * width);
  request.trailing = take_elements<float>(message.payload, trailing_at, trailing_tokens * width);
  request.pad = take_elements<float>(message.payload, pad_at, width);
  KZ_TRY(expect_finite("the prompt", request.prompt, width));
  KZ_TRY(expect_finite("the trailing text", request.trailing, width));
  KZ_TRY(expect_finite("the pad embedding", request.pad, width));
  return request;
}

Result<DecodeRequest> parse_decode(const Message& message, std::size_t code_groups) {
  FieldReader fields(message.header);
  DecodeRequest request;
  request.id = fields.text("id", contract::kMaxIdBytes);
  request.frames = static_cast<std::size_t>(fields.integer("frames", 0, kMaxCount));
  request.reset = fields.flag("reset");
  KZ_TRY(fields.finish());
  const std::size_t expected = request.frames * code_groups * sizeof(int16_t);
  if (message.payload.size() != expected) {
    return wrong_payload(message.payload.size(), expected);
  }
  request.codes = take_elements<int16_t>(message.payload, 0, request.frames * code_groups);
  return request;
}

Result<EmbedRequest> parse_embed(const Message& message) {
  FieldReader fields(message.header);
  EmbedRequest request;
  request.id = fields.text("id", contract::kMaxIdBytes);
  request.mel_frames = static_cast<std::size_t>(fields.integer("mel_frames", 1, kMaxCount));
  request.mel_bins = static_cast<std::size_t>(fields.integer("mel_bins", 1, 4096));
  KZ_TRY(fields.finish());
  const std::size_t expected = request.mel_frames * request.mel_bins * sizeof(float);
  if (message.payload.size() != expected) {
    return wrong_payload(message.payload.size(), expected);
  }
  request.mel = take_elements<float>(message.payload, 0, request.mel_frames * request.mel_bins);
  KZ_TRY(expect_finite("the mel", request.mel, request.mel_bins));
  return request;
}

}  // namespace kz
