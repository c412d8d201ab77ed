#include "message.h"

#include <algorithm>
#include <utility>

#include "contract.h"

namespace kz {
namespace {

Error bad_stream(const char* what) {
  return make_error(ErrorCode::BadStream, "%s; speak the protocol of PROTOCOL.md, of the same version as this runner", what);
}

std::string string_member(const Json& header, const char* key) {
  const Json* member = find_member(header, key);
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}

}  // namespace

std::string Message::type() const { return string_member(header, "type"); }

std::string Message::id() const {
  std::string id = string_member(header, "id");
  return id.size() <= contract::kMaxIdBytes ? id : std::string();
}

Status MessageParser::feed(Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::size_t taken = current_.has_value() ? take_payload(bytes) : take_line(bytes);
    bytes = {bytes.data() + taken, bytes.size() - taken};
    if (line_.size() > contract::kMaxHeaderBytes) {
      return bad_stream("a header line is longer than 64 KiB");
    }
    if (line_complete_) {
      KZ_TRY(start_message());
    }
    if (current_.has_value() && payload_missing_ == 0) {
      complete_.push_back(std::move(*current_));
      current_.reset();
    }
  }
  return {};
}

std::optional<Message> MessageParser::take() {
  if (complete_.empty()) {
    return std::nullopt;
  }
  Message message = std::move(complete_.front());
  complete_.pop_front();
  return message;
}

/// Takes bytes up to and including the newline, but no more than tell that the line is too long.
std::size_t MessageParser::take_line(Span<const uint8_t> bytes) {
  const auto* newline = std::find(bytes.begin(), bytes.end(), uint8_t{'\n'});
  const auto length = static_cast<std::size_t>(newline - bytes.begin());
  const std::size_t room = contract::kMaxHeaderBytes + 1 - line_.size();
  line_.append(reinterpret_cast<const char*>(bytes.data()), std::min(length, room));
  line_complete_ = newline != bytes.end();
  return line_complete_ ? length + 1 : length;
}

/// The payload grows as it arrives: a header that lies about its size costs nothing.
std::size_t MessageParser::take_payload(Span<const uint8_t> bytes) {
  const std::size_t taken = std::min(bytes.size(), payload_missing_);
  current_->payload.insert(current_->payload.end(), bytes.begin(), bytes.begin() + taken);
  payload_missing_ -= taken;
  return taken;
}

Status MessageParser::start_message() {
  auto header = parse_json(line_.data(), line_.size());
  line_.clear();
  line_complete_ = false;
  if (!header.has_value() || !header->is_object()) {
    return bad_stream("a header line is not a JSON object");
  }
  const Json* payload_bytes = find_member(*header, "payload_bytes");
  const auto size = payload_bytes != nullptr ? as_uint(*payload_bytes) : std::nullopt;
  if (!size.has_value() || *size > contract::kMaxPayloadBytes) {
    return bad_stream("a header has no payload_bytes between 0 and 268435456");
  }
  payload_missing_ = static_cast<std::size_t>(*size);
  current_ = Message{std::move(*header), {}};
  return {};
}

}  // namespace kz
