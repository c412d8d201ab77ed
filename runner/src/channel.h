#pragma once

#include <deque>
#include <optional>
#include <string>

#include "error.h"
#include "message.h"
#include "span.h"

namespace kz {

/// The two-way connection to the client: messages in on one file descriptor, messages out on another. Owns neither.
/// Single-threaded; `collect` lets a long-running request look for a cancellation between two frames.
class Channel {
 public:
  Channel(int input, int output) : input_(input), output_(output) {}

  /// The next message, waiting for it; nothing at a clean end of input. BadStream when the input is not a message stream or ends
  /// within a message; messages before the damage are delivered first.
  Result<std::optional<Message>> receive();

  /// Takes in what has arrived, without waiting; never fails: damage shows at `receive`.
  void collect();

  /// Removes every cancel message from what has arrived; true if one of them names `id`.
  bool take_cancel(const std::string& id);

  /// Writes `line` (a header, newline included) and `payload`. StreamClosed when nobody reads.
  Status send(Span<const char> line, Span<const uint8_t> payload);
  Status send(const std::string& line) { return send({line.data(), line.size()}, {}); }

 private:
  void read_some();
  void move_complete_messages();
  Status write_all(const void* data, std::size_t size);

  int input_;
  int output_;
  MessageParser parser_;
  std::deque<Message> inbox_;
  bool at_end_ = false;
  std::optional<Error> damage_;
};

}  // namespace kz
