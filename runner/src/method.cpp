#include "method.h"

namespace kz {

std::size_t TensorSpec::elements() const {
  std::size_t count = 1;
  for (const int32_t size : sizes) {
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

}  // namespace kz
