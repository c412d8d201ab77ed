#include "service.h"

#include "answer.h"
#include "contract.h"
#include "log.h"
#include "program.h"
#include "stats.h"
#include "threads.h"

namespace kz {
namespace {

std::string ready_line(const Options& options, const Role& role, unsigned threads, double load_ms) {
  Json line{{"type", "ready"},       {"protocol", contract::kProtocolVersion}, {"contract", contract::kBundleVersion},
            {"version", KZ_VERSION}, {"executorch", KZ_EXECUTORCH_VERSION},    {"role", role_name(options.role)},
            {"threads", threads},    {"load_ms", rounded_ms(load_ms)}};
  line.update(role.describe());
  line["payload_bytes"] = 0;
  return dump_json(line) + "\n";
}

Status answer(const Message& message, Role& role, Channel& channel) {
  if (message.type() == "cancel") {
    return {};  // nothing is running
  }
  if (message.type() != role.request_type()) {
    return make_error(ErrorCode::BadRequest, "this runner answers %s and cancel, not \"%.100s\"; start one with another --role",
                      role.request_type(), message.type().c_str());
  }
  return role.handle(message, channel);
}

/// Sends `error` and hands it on, for errors that end the process.
Status report(const Error& error, Channel& channel) {
  KZ_TRY(channel.send(error_line("", error)));
  return error;
}

Status serve_requests(Role& role, Channel& channel) {
  while (true) {
    const auto received = channel.receive();
    if (!received.ok()) {
      return report(received.error(), channel);
    }
    if (!received.value().has_value()) {
      return {};
    }
    const Message& message = *received.value();
    const Status status = answer(message, role, channel);
    if (!status.ok() && status.error().code == ErrorCode::StreamClosed) {
      return status;
    }
    if (!status.ok()) {
      log_message(LogLevel::Info, "request refused: %s", status.error().message.c_str());
      KZ_TRY(channel.send(error_line(message.id(), status.error())));
    }
  }
}

}  // namespace

Status serve(const Options& options, Channel& channel) {
  const Stopwatch stopwatch;
  const unsigned threads = options.threads.value_or(default_thread_count());
  if (!set_thread_count(threads)) {
    log_message(LogLevel::Warning, "cannot compute on %u threads; the runtime's own number is used", threads);
  }
  const auto role = load_role(options);
  if (!role.ok()) {
    return report(role.error(), channel);
  }
  KZ_TRY(channel.send(ready_line(options, *role.value(), threads, stopwatch.elapsed_ms())));
  return serve_requests(*role.value(), channel);
}

Json version_info() {
  return Json{{"version", KZ_VERSION},
              {"contract", contract::kBundleVersion},
              {"protocol", contract::kProtocolVersion},
              {"executorch", KZ_EXECUTORCH_VERSION},
              {"backends", registered_backends()}};
}

}  // namespace kz
