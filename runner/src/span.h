#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

namespace kz {

/// A view of `size` elements owned by somebody else; valid as long as that owner neither moves nor frees them.
template <typename T>
class Span {
 public:
  Span() = default;
  Span(T* data, std::size_t size) : data_(data), size_(size) {}
  Span(std::vector<std::remove_const_t<T>>& owner) : data_(owner.data()), size_(owner.size()) {}

  template <typename U = T, typename = std::enable_if_t<std::is_const_v<U>>>
  Span(const std::vector<std::remove_const_t<T>>& owner) : data_(owner.data()), size_(owner.size()) {}

  template <typename U = T, typename = std::enable_if_t<std::is_const_v<U>>>
  Span(Span<std::remove_const_t<T>> other) : data_(other.data()), size_(other.size()) {}

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](std::size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kz
