#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "channel.h"
#include "check.h"

namespace kz {
namespace {

/// A channel whose client is the test.
class Client {
 public:
  Client() {
    CHECK(::pipe(to_runner_) == 0);
    CHECK(::pipe(from_runner_) == 0);
  }
  ~Client() {
    hang_up();
    stop_reading();
    ::close(to_runner_[0]);
    ::close(from_runner_[1]);
  }

  int input() const { return to_runner_[0]; }
  int output() const { return from_runner_[1]; }

  void send(const std::string& bytes) const {
    CHECK(::write(to_runner_[1], bytes.data(), bytes.size()) == ssize_t(bytes.size()));
  }

  std::string read(std::size_t size) const {
    std::string bytes(size, '\0');
    const ssize_t count = ::read(from_runner_[0], bytes.data(), size);
    bytes.resize(count > 0 ? std::size_t(count) : 0);
    return bytes;
  }

  void hang_up() { close_once(to_runner_[1]); }
  void stop_reading() { close_once(from_runner_[0]); }

 private:
  static void close_once(int& descriptor) {
    if (descriptor >= 0) {
      ::close(descriptor);
      descriptor = -1;
    }
  }

  int to_runner_[2] = {-1, -1};
  int from_runner_[2] = {-1, -1};
};

std::string message(const std::string& type, const std::string& id, const std::string& payload = "") {
  return "{\"type\":\"" + type + "\",\"id\":\"" + id + "\",\"payload_bytes\":" + std::to_string(payload.size()) + "}\n" + payload;
}

std::string received_id(Channel& channel) {
  const auto received = channel.receive();
  return received.ok() && received.value().has_value() ? received.value()->id() : "nothing";
}

}  // namespace

TEST(messages_arrive_in_order_and_the_end_is_told) {
  Client client;
  Channel channel(client.input(), client.output());
  client.send(message("a", "1", "pay") + message("a", "2"));
  client.hang_up();
  CHECK_EQUAL(received_id(channel), "1");
  CHECK_EQUAL(received_id(channel), "2");
  const auto end = channel.receive();
  CHECK(end.ok() && !end.value().has_value());
}

TEST(receive_waits_for_slow_senders) {
  Client client;
  Channel channel(client.input(), client.output());
  std::thread sender([&] {
    for (const char byte : message("a", "slow", "xyz")) {
      client.send(std::string(1, byte));
      ::usleep(200);
    }
  });
  CHECK_EQUAL(received_id(channel), "slow");
  sender.join();
}

TEST(a_non_blocking_input_is_waited_for) {
  Client client;
  ::fcntl(client.input(), F_SETFL, O_NONBLOCK);
  Channel channel(client.input(), client.output());
  std::thread sender([&] {
    ::usleep(5000);
    client.send(message("a", "late"));
  });
  CHECK_EQUAL(received_id(channel), "late");
  sender.join();
}

TEST(messages_before_damage_are_delivered) {
  Client client;
  Channel channel(client.input(), client.output());
  client.send(message("a", "1") + "garbage\n");
  CHECK_EQUAL(received_id(channel), "1");
  const auto damage = channel.receive();
  REQUIRE(!damage.ok());
  CHECK(damage.error().code == ErrorCode::BadStream);
}

TEST(an_end_within_a_message_is_damage) {
  Client client;
  Channel channel(client.input(), client.output());
  client.send("{\"type\":\"a\",\"payload_bytes\":9}\nabc");
  client.hang_up();
  CHECK_CONTAINS(channel.receive().error().message, "ended within a message");
}

TEST(collect_does_not_wait) {
  Client client;
  Channel channel(client.input(), client.output());
  channel.collect();
  CHECK(!channel.take_cancel("1"));
  client.send("{\"type\":\"cancel\",\"id\":\"1\",");
  channel.collect();
  CHECK(!channel.take_cancel("1"));
  client.send("\"payload_bytes\":0}\n");
  channel.collect();
  CHECK(channel.take_cancel("1"));
}

TEST(cancellations_overtake_requests_and_others_are_dropped) {
  Client client;
  Channel channel(client.input(), client.output());
  client.send(message("generate", "2") + message("cancel", "0") + message("cancel", "1") + message("generate", "3"));
  channel.collect();
  CHECK(channel.take_cancel("1"));
  CHECK(!channel.take_cancel("1"));
  CHECK_EQUAL(received_id(channel), "2");
  CHECK_EQUAL(received_id(channel), "3");
}

TEST(collect_at_the_end_of_input_is_quiet) {
  Client client;
  Channel channel(client.input(), client.output());
  client.hang_up();
  channel.collect();
  channel.collect();
  CHECK(channel.receive().ok());
}

TEST(header_and_payload_are_written_as_they_are) {
  Client client;
  Channel channel(client.input(), client.output());
  const std::string line = "{}\n";
  const std::vector<uint8_t> payload{'a', 'b'};
  CHECK(channel.send({line.data(), line.size()}, payload).ok());
  CHECK_EQUAL(client.read(16), "{}\nab");
}

TEST(a_closed_output_is_told) {
  std::signal(SIGPIPE, SIG_IGN);
  Client client;
  Channel channel(client.input(), client.output());
  client.stop_reading();
  const Status status = channel.send("{}\n");
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::StreamClosed);
}

}  // namespace kz
