#include <cstring>

#include "check.h"
#include "contract.h"
#include "message.h"

namespace kz {
namespace {

Span<const uint8_t> bytes_of(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

std::string payload_text(const Message& message) { return {message.payload.begin(), message.payload.end()}; }

std::string refusal(const std::string& stream) {
  MessageParser parser;
  const Status status = parser.feed(bytes_of(stream));
  return status.ok() ? "accepted" : status.error().message;
}

const std::string kTwoMessages =
    "{\"type\":\"a\",\"id\":\"1\",\"payload_bytes\":5}\nab\n{}{\"type\":\"b\",\"id\":\"2\",\"payload_bytes\":0}\n";

void expect_both(MessageParser& parser) {
  const auto first = parser.take();
  REQUIRE(first.has_value());
  CHECK_EQUAL(first->type(), "a");
  CHECK_EQUAL(payload_text(*first), "ab\n{}");
  const auto second = parser.take();
  REQUIRE(second.has_value());
  CHECK_EQUAL(second->type(), "b");
  CHECK_EQUAL(second->id(), "2");
  CHECK(!parser.take().has_value());
}

}  // namespace

TEST(messages_in_one_piece) {
  MessageParser parser;
  CHECK(parser.feed(bytes_of(kTwoMessages)).ok());
  CHECK(parser.at_boundary());
  expect_both(parser);
}

TEST(messages_split_anywhere) {
  for (std::size_t cut = 0; cut <= kTwoMessages.size(); ++cut) {
    MessageParser parser;
    CHECK(parser.feed(bytes_of(kTwoMessages.substr(0, cut))).ok());
    CHECK(parser.feed(bytes_of(kTwoMessages.substr(cut))).ok());
    expect_both(parser);
  }
}

TEST(messages_byte_by_byte) {
  MessageParser parser;
  for (const char byte : kTwoMessages) {
    CHECK(parser.feed(bytes_of(std::string(1, byte))).ok());
  }
  expect_both(parser);
}

TEST(the_parser_knows_when_a_message_is_half_read) {
  MessageParser parser;
  CHECK(parser.at_boundary());
  CHECK(parser.feed(bytes_of("{\"type\":\"a\",")).ok());
  CHECK(!parser.at_boundary());
  CHECK(parser.feed(bytes_of("\"payload_bytes\":2}\nx")).ok());
  CHECK(!parser.at_boundary());
  CHECK(parser.feed(bytes_of("y")).ok());
  CHECK(parser.at_boundary());
}

TEST(garbage_is_refused) {
  CHECK_CONTAINS(refusal("hello\n"), "not a JSON object");
  CHECK_CONTAINS(refusal("\n"), "not a JSON object");
  CHECK_CONTAINS(refusal("[1]\n"), "not a JSON object");
  CHECK_CONTAINS(refusal("{\"payload_bytes\":0\n"), "not a JSON object");
  CHECK_CONTAINS(refusal("{\"temperature\":NaN,\"payload_bytes\":0}\n"), "not a JSON object");
  CHECK_CONTAINS(refusal("{\"seed\":1e999,\"payload_bytes\":0}\n"), "not a JSON object");
  CHECK_CONTAINS(refusal(std::string("\0\xff\xfe\n", 4)), "not a JSON object");
  CHECK_CONTAINS(refusal("{}\n"), "no payload_bytes");
  for (const char* size : {"-1", "1.0", "\"1\"", "null", "268435457", "18446744073709551616"}) {
    CHECK_CONTAINS(refusal("{\"payload_bytes\":" + std::string(size) + "}\n"), "no payload_bytes");
  }
}

TEST(a_header_may_be_64_kib_and_no_longer) {
  const std::string start = "{\"payload_bytes\":0,\"x\":\"";
  const std::string padding(contract::kMaxHeaderBytes - start.size() - 2, 'x');
  CHECK_EQUAL(refusal(start + padding + "\"}\n"), "accepted");
  CHECK_CONTAINS(refusal(start + padding + "x\"}\n"), "longer than 64 KiB");
  CHECK_CONTAINS(refusal(std::string(contract::kMaxHeaderBytes + 1, 'x')), "longer than 64 KiB");
}

TEST(deep_nesting_is_harmless) {
  const std::string deep = std::string(20000, '[') + std::string(20000, ']');
  CHECK_EQUAL(refusal("{\"payload_bytes\":0,\"x\":" + deep + "}\n"), "accepted");
}

TEST(an_unusable_id_is_empty) {
  for (const std::string& id : {std::string("1"), "\"" + std::string(257, 'x') + "\"", std::string("null")}) {
    MessageParser parser;
    CHECK(parser.feed(bytes_of("{\"id\":" + id + ",\"payload_bytes\":0}\n")).ok());
    const auto message = parser.take();
    REQUIRE(message.has_value());
    CHECK_EQUAL(message->id(), "");
  }
}

}  // namespace kz
