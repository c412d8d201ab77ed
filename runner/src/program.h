#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "error.h"
#include "method.h"

namespace kz {

/// A `.pte` file, checked and opened. Methods keep it alive; constants are read on demand.
class Program {
 public:
  /// LoadFailed when `path` is missing, empty, truncated or not an ExecuTorch program, or when its `contract_version` is not
  /// this runner's. `expected_bytes` is the size the manifest gives.
  static Result<Program> open(const std::string& path, uint64_t expected_bytes);

  /// Value of a constant method; LoadFailed when it is missing or of another type.
  Result<int64_t> read_int(const char* name) const;
  Result<double> read_double(const char* name) const;

  /// As read_int, but also LoadFailed outside [low, high].
  Result<int64_t> read_int(const char* name, int64_t low, int64_t high) const;

  bool has_method(const char* name) const;

  /// Loads one method: backends compile and pack its weights now. Weights that two methods of a program share are packed once.
  Result<std::unique_ptr<Method>> load_method(const std::string& name) const;

  const std::string& path() const;

  /// Backends (`xnnpack`, `qnn`, ...) its methods run on, without duplicates.
  std::vector<std::string> backends() const;

 private:
  struct File;
  explicit Program(std::shared_ptr<const File> file);

  std::shared_ptr<const File> file_;
};

/// Backends linked into this runner, by the names `Program::backends` uses.
std::vector<std::string> registered_backends();

}  // namespace kz
