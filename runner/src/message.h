#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "error.h"
#include "json.h"
#include "span.h"

namespace kz {

/// A message from the client: an object with a string `type`, and the bytes that followed its line.
struct Message {
  Json header;
  std::vector<uint8_t> payload;

  std::string type() const;
  /// The header's `id` if it has a usable one (a string of at most kMaxIdBytes), else empty.
  std::string id() const;
};

/// Cuts a byte stream into messages, however the stream was split. Does no I/O.
class MessageParser {
 public:
  /// Takes the next bytes of the stream. BadStream when they cannot belong to a message; the parser is then of no more use.
  Status feed(Span<const uint8_t> bytes);

  /// The next complete message, oldest first, or nothing.
  std::optional<Message> take();

  /// Whether the stream may end here: no message is half read.
  bool at_boundary() const { return line_.empty() && !current_.has_value(); }

 private:
  std::size_t take_line(Span<const uint8_t> bytes);
  std::size_t take_payload(Span<const uint8_t> bytes);
  Status start_message();

  std::string line_;  ///< header read so far
  bool line_complete_ = false;
  std::optional<Message> current_;  ///< whose payload is being read
  std::size_t payload_missing_ = 0;
  std::deque<Message> complete_;
};

}  // namespace kz
