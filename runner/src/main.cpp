// kz_runner: command line and process wiring. Everything it does is in service.h; the messages are in PROTOCOL.md.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "channel.h"
#include "error.h"
#include "log.h"
#include "options.h"
#include "runtime_log.h"
#include "service.h"

namespace {

constexpr int kExitOk = 0;
constexpr int kExitLoadFailed = 1;
constexpr int kExitMisused = 2;  // wrong command line, or an input that is not the protocol

int exit_code(const kz::Status& status) {
  if (status.ok() || status.error().code == kz::ErrorCode::StreamClosed) {
    return kExitOk;  // the client has gone: there is nobody left to disappoint
  }
  return status.error().code == kz::ErrorCode::LoadFailed ? kExitLoadFailed : kExitMisused;
}

/// Keeps the real standard output for messages; whatever else in the process prints goes to standard error.
int take_over_stdout() {
  const int messages = ::dup(STDOUT_FILENO);
  return messages >= 0 && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? messages : STDOUT_FILENO;
}

int run(int argument_count, char** arguments) {
  const auto options = kz::parse_options({arguments + 1, static_cast<std::size_t>(argument_count) - 1});
  if (!options.ok()) {
    kz::log_message(kz::LogLevel::Error, "%s", options.error().message.c_str());
    return kExitMisused;
  }
  if (options.value().show_help) {
    std::fputs(kz::kUsage, stdout);
    return kExitOk;
  }
  if (options.value().show_version) {
    std::puts(kz::dump_json(kz::version_info()).c_str());
    return kExitOk;
  }
  kz::set_log_level(options.value().log_level);
  kz::route_runtime_log();
  kz::Channel channel(STDIN_FILENO, take_over_stdout());
  const kz::Status status = kz::serve(options.value(), channel);
  if (exit_code(status) != kExitOk) {
    kz::log_message(kz::LogLevel::Error, "%s", status.error().message.c_str());
  }
  return exit_code(status);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 1) {
    return kExitMisused;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a closed standard output is an error of `write`
  try {
    return run(argument_count, arguments);
  } catch (const std::exception& failure) {  // out of memory, in practice
    kz::log_message(kz::LogLevel::Error, "%s; close other programs and try again", failure.what());
    return kExitLoadFailed;
  }
}
