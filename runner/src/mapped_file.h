#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "error.h"
#include "span.h"

namespace kz {

/// LoadFailed: the file at `path` is not of the size its manifest gives.
Error wrong_size(const std::string& path, uint64_t actual, uint64_t expected);

/// A file mapped read-only; its pages are shared with other processes and loaded as they are touched.
/// The bytes stay valid for the life of the object, wherever it is moved.
class MappedFile {
 public:
  /// Maps the whole of `path`. LoadFailed when it cannot be opened or is empty.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(address_), size_}; }

 private:
  MappedFile(void* address, std::size_t size) : address_(address), size_(size) {}

  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kz
