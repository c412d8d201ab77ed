#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cache_memory.h"
#include "error.h"
#include "kv_cache.h"

namespace kz {

/// Keys and values of every layer as a program of fixed shapes reads them, in elements of whatever type it stores: keys
/// [kv_heads, head_dim, past], values [kv_heads, past, head_dim]. A graph reads all of it on every call and is told by its mask
/// what counts; positions not filled yet are zero.
///
/// Beside the cache lies room for what a call returns, keys [kv_heads, head_dim, tokens] and values [kv_heads, tokens, head_dim]
/// of every layer, as the graph must not write what it is still reading. `store` then moves the new slices, and nothing else,
/// to their places, element by element as they are. Pointers stay valid for the life of the object.
class StaticKvCache {
 public:
  /// `past`: positions. `tokens`: most new ones of a call. LoadFailed when the memory cannot be had.
  static Result<StaticKvCache> create(const KvShape& shape, std::size_t element_bytes, std::size_t past, std::size_t tokens,
                                      std::unique_ptr<CacheMemory> (*allocate)(std::size_t bytes));

  std::size_t past() const { return past_; }
  std::size_t element_bytes() const { return element_bytes_; }
  bool is_shared() const { return memory_->is_shared(); }

  /// Positions filled so far.
  std::size_t used() const { return used_; }
  /// Forgets all positions. What they held stays there, masked, as any number of the program's own does no harm.
  void clear() { used_ = 0; }

  uint8_t* keys(std::size_t layer) { return tensor(2 * layer); }
  uint8_t* values(std::size_t layer) { return tensor(2 * layer + 1); }
  uint8_t* new_keys(std::size_t layer) { return new_tensor(2 * layer); }
  uint8_t* new_values(std::size_t layer) { return new_tensor(2 * layer + 1); }

  /// Bytes of one layer's keys (or values), and of those that a call of `tokens` returns.
  std::size_t tensor_bytes() const { return past_ * shape_.row_elements() * element_bytes_; }
  std::size_t new_tensor_bytes(std::size_t tokens) const { return tokens * shape_.row_elements() * element_bytes_; }

  /// Appends the last `rows` of `tokens` new positions, all layers, as far as there is room. Returns the bytes moved.
  std::size_t store(std::size_t tokens, std::size_t rows);

 private:
  StaticKvCache(const KvShape& shape, std::size_t element_bytes, std::size_t past, std::size_t tokens,
                std::unique_ptr<CacheMemory> memory);
  uint8_t* tensor(std::size_t index) { return memory_->data() + index * stride_; }
  uint8_t* new_tensor(std::size_t index) { return memory_->data() + 2 * shape_.layers * stride_ + index * new_stride_; }
  /// `count` positions from `first` of the `tokens` new ones on.
  void store_keys(std::size_t layer, std::size_t tokens, std::size_t first, std::size_t count);
  void store_values(std::size_t layer, std::size_t tokens, std::size_t first, std::size_t count);

  KvShape shape_;
  std::size_t element_bytes_;
  std::size_t past_;
  std::size_t stride_;      ///< bytes from one tensor to the next
  std::size_t new_stride_;  ///< likewise, of the returned ones
  std::size_t used_ = 0;
  std::unique_ptr<CacheMemory> memory_;
};

}  // namespace kz
