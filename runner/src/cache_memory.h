#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kz {

/// Zeroed memory for a cache, and what else must be told of it.
class CacheMemory {
 public:
  virtual ~CacheMemory() = default;

  virtual uint8_t* data() = 0;

  /// Says that a tensor begins at `address` inside of this memory. Call it for each, before the first execution.
  virtual void announce_tensor(void* address) = 0;

  /// The NPU reads and writes it where it is.
  virtual bool is_shared() const = 0;
};

/// `bytes` of zeroed memory of this process; null when it cannot be had.
std::unique_ptr<CacheMemory> allocate_process_memory(std::size_t bytes);

}  // namespace kz
