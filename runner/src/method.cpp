#include "method.h"

namespace kz {

std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::Int64:
      return 8;
    case ElementType::Float32:
    case ElementType::Int32:
      return 4;
    case ElementType::Float16:
    case ElementType::Int16:
    case ElementType::UInt16:
      return 2;
    case ElementType::Int8:
    case ElementType::UInt8:
      return 1;
    case ElementType::Other:
      return 0;
  }
  return 0;
}

std::size_t TensorSpec::elements() const {
  std::size_t count = 1;
  for (const int32_t size : sizes) {
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

}  // namespace kz
