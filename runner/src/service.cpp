#include "service.h"

#include <algorithm>
#include <future>
#include <map>

#include "answer.h"
#include "contract.h"
#include "file_hashes.h"
#include "log.h"
#include "manifest.h"
#include "npu.h"
#include "npu_library.h"
#include "program.h"
#include "stats.h"
#include "threads.h"

namespace kz {
namespace {

using Hashes = std::map<std::string, std::string>;

/// The hashes `options` ask for; empty when they ask for none.
Result<Hashes> hash_files(const Options& options) {
  if (!options.hash_files) {
    return Hashes{};
  }
  KZ_TRY_ASSIGN(const Manifest manifest, Manifest::read(options.bundle));
  return hash_role_files(manifest, options.role);
}

std::string ready_line(const Options& options, const Role& role, const Hashes& hashes, unsigned threads, double load_ms) {
  Json line{{"type", "ready"},       {"protocol", contract::kProtocolVersion}, {"contract", contract::kBundleVersion},
            {"version", KZ_VERSION}, {"executorch", KZ_EXECUTORCH_VERSION},    {"role", role_name(options.role)},
            {"threads", threads},    {"load_ms", rounded_ms(load_ms)}};
  line.update(role.describe());
  const Json& backends = line["backends"];
  line["npu_emulated"] = npu_is_emulated() && std::find(backends.begin(), backends.end(), "qnn") != backends.end();
  if (options.hash_files) {
    line["files"] = hashes;
  }
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
  set_npu_performance_mode();
  // Reading everything once more takes a while: another core does it meanwhile.
  auto hashing = std::async(std::launch::async, hash_files, options);
  const auto role = load_role(options);
  const auto hashes = hashing.get();
  if (!role.ok() || !hashes.ok()) {
    return report(role.ok() ? hashes.error() : role.error(), channel);
  }
  KZ_TRY(channel.send(ready_line(options, *role.value(), hashes.value(), threads, stopwatch.elapsed_ms())));
  return serve_requests(*role.value(), channel);
}

Json version_info() {
  Json info{{"version", KZ_VERSION},
            {"contract", contract::kBundleVersion},
            {"protocol", contract::kProtocolVersion},
            {"executorch", KZ_EXECUTORCH_VERSION},
            {"backends", registered_backends()}};
  if (const auto version = npu_library_version(); version.has_value()) {
    info["qnn"] = *version;
  }
  return info;
}

}  // namespace kz
