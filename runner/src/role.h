#pragma once

#include <memory>
#include <string>
#include <vector>

#include "channel.h"
#include "error.h"
#include "json.h"
#include "options.h"

namespace kz {

/// What one runner process does for its client: generate, decode or embed. It answers the requests of that role.
class Role {
 public:
  virtual ~Role() = default;

  /// Fields of the `ready` message that describe the loaded programs: sizes and backends.
  virtual Json describe() const = 0;

  /// The type of request this role answers, other than cancel.
  virtual const char* request_type() const = 0;

  /// Answers one request of that type on `channel`, its last message a success. On an error the caller answers.
  virtual Status handle(const Message& request, Channel& channel) = 0;
};

/// Loads the role `options` ask for from its bundle. LoadFailed names the file and the remedy.
Result<std::unique_ptr<Role>> load_role(const Options& options);

}  // namespace kz
