#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "error.h"

namespace kz {

/// Widths of one transformer's keys and values.
struct KvShape {
  std::size_t layers = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;

  /// Floats of one position of one layer's keys (or values): [kv_heads, head_dim].
  std::size_t row_elements() const { return kv_heads * head_dim; }
};

/// Keys and values of every layer, float32, token-major: [capacity, kv_heads, head_dim] each. The past of a step is a
/// contiguous prefix and the place of its new rows lies right behind it, so graphs read and write the cache in place.
///
/// In front of position 0 lie `headroom` rows nobody reads: a right-aligned prompt chunk writes its pad rows there.
/// Pointers stay valid for the life of the object. Pages are only resident once touched.
class KvCache {
 public:
  /// LoadFailed when the memory cannot be had.
  static Result<KvCache> create(const KvShape& shape, std::size_t capacity, std::size_t headroom);

  std::size_t capacity() const { return capacity_; }
  std::size_t headroom() const { return headroom_; }

  /// Positions filled so far.
  std::size_t used() const { return used_; }
  void clear() { used_ = 0; }
  /// Counts `rows` more positions as filled; the sum must stay within the capacity.
  void advance(std::size_t rows) { used_ += rows; }

  /// Row of `position` in [-headroom, capacity).
  float* keys(std::size_t layer, std::ptrdiff_t position) { return row(2 * layer, position); }
  float* values(std::size_t layer, std::ptrdiff_t position) { return row(2 * layer + 1, position); }

  /// A row of zeros that stands in for the past while the cache is empty.
  const float* blank_row() const { return blank_row_.data(); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };

  KvCache(const KvShape& shape, std::size_t capacity, std::size_t headroom, float* memory);
  float* row(std::size_t tensor, std::ptrdiff_t position);

  KvShape shape_;
  std::size_t capacity_;
  std::size_t headroom_;
  std::size_t used_ = 0;
  std::unique_ptr<float, Free> memory_;
  std::vector<float> blank_row_;
};

}  // namespace kz
