#include "channel.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kz {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
/// Requests waiting behind a running one; beyond that the client has to wait for answers.
constexpr std::size_t kMaxWaiting = 64;
constexpr char kCancelType[] = "cancel";

bool is_ready(int descriptor, short events, int timeout_ms) {
  struct pollfd poller{};
  poller.fd = descriptor;
  poller.events = events;
  return ::poll(&poller, 1, timeout_ms) > 0;
}

/// Whether a failed read or write is to be tried again; waits first where the descriptor was opened non-blocking.
bool should_retry(int descriptor, short events) {
  constexpr int kForever = -1;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    is_ready(descriptor, events, kForever);
    return true;
  }
  return errno == EINTR;
}

}  // namespace

Result<std::optional<Message>> Channel::receive() {
  while (inbox_.empty()) {
    if (damage_.has_value()) {
      return *damage_;
    }
    if (at_end_) {
      return std::optional<Message>();
    }
    read_some();
  }
  std::optional<Message> message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

void Channel::collect() {
  while (!at_end_ && !damage_.has_value() && inbox_.size() < kMaxWaiting && is_ready(input_, POLLIN, 0)) {
    read_some();
  }
}

bool Channel::take_cancel(const std::string& id) {
  bool named = false;
  const auto is_cancel = [&](const Message& message) {
    if (message.type() != kCancelType) {
      return false;
    }
    named = named || message.id() == id;
    return true;
  };
  inbox_.erase(std::remove_if(inbox_.begin(), inbox_.end(), is_cancel), inbox_.end());
  return named;
}

Status Channel::send(Span<const char> line, Span<const uint8_t> payload) {
  KZ_TRY(write_all(line.data(), line.size()));
  return write_all(payload.data(), payload.size());
}

/// One read, waiting if nothing is there.
void Channel::read_some() {
  std::array<uint8_t, kReadBytes> buffer;
  const ssize_t count = ::read(input_, buffer.data(), buffer.size());
  if (count < 0 && should_retry(input_, POLLIN)) {
    return;
  }
  if (count < 0) {
    damage_ = make_error(ErrorCode::BadStream, "cannot read standard input: %s; start the runner again", std::strerror(errno));
    return;
  }
  if (count == 0) {
    at_end_ = true;
    if (!parser_.at_boundary()) {
      damage_ = make_error(ErrorCode::BadStream, "standard input ended within a message; send header and payload in full");
    }
    return;
  }
  const Status status = parser_.feed({buffer.data(), static_cast<std::size_t>(count)});
  move_complete_messages();
  if (!status.ok()) {
    damage_ = status.error();
  }
}

void Channel::move_complete_messages() {
  while (auto message = parser_.take()) {
    inbox_.push_back(std::move(*message));
  }
}

Status Channel::write_all(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const ssize_t count = ::write(output_, bytes, size);
    if (count < 0 && should_retry(output_, POLLOUT)) {
      continue;
    }
    if (count < 0) {
      return make_error(ErrorCode::StreamClosed, "cannot write standard output: %s", std::strerror(errno));
    }
    bytes += count;
    size -= static_cast<std::size_t>(count);
  }
  return {};
}

}  // namespace kz
