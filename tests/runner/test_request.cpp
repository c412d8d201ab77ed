#include <cstring>

#include "check.h"
#include "request.h"

namespace kz {
namespace {

Json generate_header() {
  return Json{{"type", "generate"},
              {"id", "r1"},
              {"prompt_tokens", 2},
              {"trailing_tokens", 1},
              {"hidden_size", 3},
              {"seed", 18446744073709551615u},
              {"max_frames", 10},
              {"min_frames", 2},
              {"greedy", false},
              {"temperature", 0.9},
              {"top_k", 50},
              {"top_p", 1.0},
              {"repetition_penalty", 1.05},
              {"predictor_greedy", true},
              {"predictor_temperature", 0},
              {"predictor_top_k", 0},
              {"predictor_top_p", 0.5},
              {"payload_bytes", 48}};
}

std::vector<uint8_t> floats(std::size_t count, float first = 0.0f) {
  std::vector<float> values(count);
  for (std::size_t index = 0; index < count; ++index) {
    values[index] = first + static_cast<float>(index);
  }
  std::vector<uint8_t> bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string refusal(const char* key, const Json& value) {
  Message message{generate_header(), floats(12)};
  message.header[key] = value;
  const auto request = parse_generate(message);
  return request.ok() ? "accepted" : std::string(error_code_name(request.error().code)) + ": " + request.error().message;
}

}  // namespace

TEST(a_generate_request_is_read_in_full) {
  const auto parsed = parse_generate({generate_header(), floats(12)});
  REQUIRE(parsed.ok());
  const GenerateRequest& request = parsed.value();
  CHECK_EQUAL(request.id, "r1");
  CHECK_EQUAL(request.prompt, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  CHECK_EQUAL(request.trailing, (std::vector<float>{6, 7, 8}));
  CHECK_EQUAL(request.pad, (std::vector<float>{9, 10, 11}));
  CHECK_EQUAL(request.seed, UINT64_MAX);
  CHECK_EQUAL(request.talker.top_k, 50);
  CHECK_EQUAL(request.talker.temperature, 0.9);
  CHECK(request.predictor.greedy);
  CHECK_EQUAL(request.predictor.top_p, 0.5);
  CHECK_EQUAL(request.repetition_penalty, 1.05);
}

TEST(every_field_is_needed) {
  const Json complete = generate_header();
  for (const auto& [key, value] : complete.items()) {
    if (key == "type" || key == "payload_bytes") {
      continue;
    }
    Message message{complete, floats(12)};
    message.header.erase(key);
    const auto request = parse_generate(message);
    REQUIRE(!request.ok());
    CHECK(request.error().code == ErrorCode::BadRequest);
    CHECK_CONTAINS(request.error().message, "field " + key + " must be");
  }
}

TEST(values_out_of_range_are_named) {
  CHECK_CONTAINS(refusal("prompt_tokens", 0), "field prompt_tokens must be an integer from 1 to 2147483647");
  CHECK_CONTAINS(refusal("prompt_tokens", 4294967296), "prompt_tokens");
  CHECK_CONTAINS(refusal("prompt_tokens", 2.0), "prompt_tokens");
  CHECK_CONTAINS(refusal("trailing_tokens", -1), "trailing_tokens");
  CHECK_CONTAINS(refusal("seed", -1), "field seed must be an integer from 0 to 18446744073709551615");
  CHECK_CONTAINS(refusal("seed", 1.5), "seed");
  CHECK_CONTAINS(refusal("max_frames", 0), "max_frames");
  CHECK_CONTAINS(refusal("max_frames", "ten"), "max_frames");
  CHECK_CONTAINS(refusal("greedy", 1), "field greedy must be true or false");
  CHECK_CONTAINS(refusal("temperature", 0), "field temperature must be a number from 0.0001 to 1e+06");
  CHECK_CONTAINS(refusal("temperature", -1), "temperature");
  CHECK_CONTAINS(refusal("temperature", nullptr), "temperature");
  CHECK_CONTAINS(refusal("top_k", -1), "top_k");
  CHECK_CONTAINS(refusal("top_p", 1.1), "top_p");
  CHECK_CONTAINS(refusal("repetition_penalty", 0), "repetition_penalty");
  CHECK_CONTAINS(refusal("predictor_top_p", -0.1), "predictor_top_p");
  CHECK_CONTAINS(refusal("id", 7), "field id must be a string");
  CHECK_CONTAINS(refusal("tempo", 1), "bad_request: field tempo is unknown");
}

TEST(the_payload_must_have_the_size_the_header_says) {
  CHECK_CONTAINS(refusal("prompt_tokens", 3), "bad_payload: the payload has 48 bytes, the header's sizes make 60");
  CHECK_CONTAINS(refusal("prompt_tokens", 2147483647), "bad_payload");
  CHECK_CONTAINS(refusal("hidden_size", 1048576), "bad_payload");
}

TEST(numbers_that_are_not_finite_are_refused) {
  const auto parsed = [](std::size_t element) {
    Message message{generate_header(), floats(12)};
    const float nan = NAN;
    std::memcpy(message.payload.data() + element * sizeof(float), &nan, sizeof nan);
    return parse_generate(message);
  };
  CHECK_CONTAINS(parsed(4).error().message, "row 1 of the prompt");
  CHECK_CONTAINS(parsed(6).error().message, "row 0 of the trailing text");
  CHECK_CONTAINS(parsed(11).error().message, "row 0 of the pad embedding");
  CHECK(parsed(11).error().code == ErrorCode::BadPayload);
}

TEST(decode_requests) {
  const Json header{{"type", "decode"}, {"id", "d"}, {"frames", 2}, {"reset", true}, {"payload_bytes", 8}};
  const auto request = parse_decode({header, {1, 0, 2, 0, 255, 255, 0, 1}}, 2);
  REQUIRE(request.ok());
  CHECK(request.value().codes == (std::vector<int16_t>{1, 2, -1, 256}));
  CHECK(request.value().reset);
  CHECK(parse_decode({header, {1, 0}}, 2).error().code == ErrorCode::BadPayload);
}

TEST(embed_requests) {
  const Json header{{"type", "embed"}, {"id", "e"}, {"mel_frames", 2}, {"mel_bins", 3}, {"payload_bytes", 24}};
  const auto request = parse_embed({header, floats(6)});
  REQUIRE(request.ok());
  CHECK_EQUAL(request.value().mel, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  CHECK_CONTAINS(parse_embed({header, floats(6, NAN)}).error().message, "row 0 of the mel");
}

}  // namespace kz
