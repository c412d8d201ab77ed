#include "kv_cache.h"

#include "method.h"

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

}  // namespace

Result<KvCache> KvCache::create(const KvShape& shape, std::size_t capacity, std::size_t headroom) {
  const std::size_t rows = 2 * shape.layers * (headroom + capacity);
  // calloc leaves the pages untouched: a long context costs memory only as far as it is filled.
  void* memory = std::calloc(rows * shape.row_elements() + kSlackElements, sizeof(float));
  if (memory == nullptr) {
    return make_error(ErrorCode::LoadFailed,
                      "no memory for a KV cache of %zu positions and %zu layers; close other programs or export with a smaller "
                      "--context",
                      capacity, shape.layers);
  }
  return KvCache(shape, capacity, headroom, static_cast<float*>(memory));
}

KvCache::KvCache(const KvShape& shape, std::size_t capacity, std::size_t headroom, float* memory)
    : shape_(shape),
      capacity_(capacity),
      headroom_(headroom),
      memory_(memory),
      blank_row_(shape.row_elements() + kSlackElements, 0.0f) {}

float* KvCache::row(std::size_t tensor, std::ptrdiff_t position) {
  const std::size_t index = tensor * (headroom_ + capacity_) + headroom_;
  return memory_.get() + (static_cast<std::ptrdiff_t>(index) + position) * static_cast<std::ptrdiff_t>(shape_.row_elements());
}

}  // namespace kz
