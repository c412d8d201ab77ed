#include "answer.h"
#include "check.h"

namespace kz {
namespace {

std::string text_of(Span<const char> line) { return {line.data(), line.size()}; }

}  // namespace

TEST(lines_have_one_form) {
  CHECK_EQUAL(answer_line("audio", "7", Json{{"samples", 3}}, 12),
              "{\"type\":\"audio\",\"id\":\"7\",\"samples\":3,\"payload_bytes\":12}\n");
}

TEST(frame_lines_equal_other_lines) {
  FrameLine line("a\"b", 32);
  CHECK_EQUAL(text_of(line.at(0)), answer_line("frame", "a\"b", Json{{"index", 0}}, 32));
  CHECK_EQUAL(text_of(line.at(1234567)), answer_line("frame", "a\"b", Json{{"index", 1234567}}, 32));
  CHECK_EQUAL(text_of(line.at(8)), answer_line("frame", "a\"b", Json{{"index", 8}}, 32));
}

TEST(errors_carry_code_and_message) {
  CHECK_EQUAL(error_line("x", make_error(ErrorCode::TooLong, "%d tokens", 9)),
              "{\"type\":\"error\",\"id\":\"x\",\"code\":\"too_long\",\"message\":\"9 tokens\",\"payload_bytes\":0}\n");
}

TEST(ids_that_are_not_utf8_are_repaired) { CHECK_CONTAINS(answer_line("done", "\xff", Json::object()), "\xef\xbf\xbd"); }

TEST(milliseconds_are_rounded) { CHECK_EQUAL(dump_json(rounded_ms(1.23456789)), "1.235"); }

}  // namespace kz
