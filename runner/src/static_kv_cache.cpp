#include "static_kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "method.h"

namespace kz {
namespace {

constexpr std::size_t kTensorAlignment = 128;

/// Room for a tensor, slack and alignment included.
std::size_t padded(std::size_t bytes) {
  return (bytes + Method::kReadSlackBytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace

Result<StaticKvCache> StaticKvCache::create(const KvShape& shape, std::size_t element_bytes, std::size_t past, std::size_t tokens,
                                            std::unique_ptr<CacheMemory> (*allocate)(std::size_t bytes)) {
  const std::size_t position_bytes = shape.row_elements() * element_bytes;
  const std::size_t bytes = 2 * shape.layers * (padded(past * position_bytes) + padded(tokens * position_bytes));
  auto memory = allocate(bytes);
  if (memory == nullptr) {
    return make_error(ErrorCode::LoadFailed,
                      "no memory for a KV cache of %zu positions and %zu layers; close other programs or export with a smaller "
                      "--context",
                      past, shape.layers);
  }
  return StaticKvCache(shape, element_bytes, past, tokens, std::move(memory));
}

StaticKvCache::StaticKvCache(const KvShape& shape, std::size_t element_bytes, std::size_t past, std::size_t tokens,
                             std::unique_ptr<CacheMemory> memory)
    : shape_(shape),
      element_bytes_(element_bytes),
      past_(past),
      stride_(padded(past * shape.row_elements() * element_bytes)),
      new_stride_(padded(tokens * shape.row_elements() * element_bytes)),
      memory_(std::move(memory)) {
  for (std::size_t index = 0; index < 2 * shape_.layers; ++index) {
    memory_->announce_tensor(tensor(index));
    memory_->announce_tensor(new_tensor(index));
  }
}

std::size_t StaticKvCache::store(std::size_t tokens, std::size_t rows) {
  const std::size_t count = std::min(rows, past_ - std::min(used_, past_));
  for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
    store_keys(layer, tokens, tokens - rows, count);
    store_values(layer, tokens, tokens - rows, count);
  }
  used_ += rows;
  return 2 * shape_.layers * count * shape_.row_elements() * element_bytes_;
}

/// [lines, tokens] to [lines, past]: a few elements into each line.
void StaticKvCache::store_keys(std::size_t layer, std::size_t tokens, std::size_t first, std::size_t count) {
  const uint8_t* source = new_keys(layer) + first * element_bytes_;
  uint8_t* target = keys(layer) + used_ * element_bytes_;
  for (std::size_t line = 0; line < shape_.row_elements(); ++line) {
    std::memcpy(target, source, count * element_bytes_);
    source += tokens * element_bytes_;
    target += past_ * element_bytes_;
  }
}

/// [kv_heads, tokens, head_dim] to [kv_heads, past, head_dim]: a block a head.
void StaticKvCache::store_values(std::size_t layer, std::size_t tokens, std::size_t first, std::size_t count) {
  const std::size_t position_bytes = shape_.head_dim * element_bytes_;
  const uint8_t* source = new_values(layer) + first * position_bytes;
  uint8_t* target = values(layer) + used_ * position_bytes;
  for (std::size_t head = 0; head < shape_.kv_heads; ++head) {
    std::memcpy(target, source, count * position_bytes);
    source += tokens * position_bytes;
    target += past_ * position_bytes;
  }
}

}  // namespace kz
